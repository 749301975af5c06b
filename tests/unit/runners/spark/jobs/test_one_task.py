"""When a task gives up an epoch that it runs alone."""

from __future__ import annotations

import pytest

from headrace.runners.engine.task import host
from headrace.runners.engine.task.host import LocalExchange, TooMuchError


def test_splits_together_have_as_many_records_as_one_task_reads() -> None:
    exchange = LocalExchange()
    exchange.count_read(3, most=5)
    with pytest.raises(TooMuchError):
        exchange.count_read(3, most=5)
    LocalExchange().count_read(3, most=5)


def test_one_task_reads_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = LocalExchange()
    monkeypatch.setattr(host, "MOST_SECONDS", 0.0)
    with pytest.raises(TooMuchError):
        exchange.count_read(0, most=5)
