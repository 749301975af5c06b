"""Parcels that stay in the process that they are made in come to the same as those that travel as bytes."""

from __future__ import annotations

import pytest

from headrace.runners.engine.task.host import LocalExchange
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import LocalExecutor
from tests.faults.crashes.test_vectorized_grouping_survives import Rows, told, topology


class Watched(LocalExchange):
    """Notes what is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[int] = []

    def take(self, number: int):
        self.taken.append(number)
        return super().take(number)


def test_columns_that_are_handed_over_are_those_that_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    travelled: Rows = {}
    expected = LocalRunner(intervals=2, parallelism=2).run_topology(topology(travelled))
    local_exchange = Watched()
    monkeypatch.setattr(LocalExecutor, "local_exchange", local_exchange)
    rows: Rows = {}
    result = LocalRunner(intervals=2, parallelism=2).run_topology(topology(rows))
    assert rows == travelled
    assert told(result) == told(expected)
    assert local_exchange.taken and len(set(local_exchange.taken)) == len(local_exchange.taken)
