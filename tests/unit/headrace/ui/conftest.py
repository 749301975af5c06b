"""A clock for pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from headrace.ui import checkpoint_reader


@pytest.fixture
def an_hour_passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets an hour pass for readers of checkpoints that the test makes: the next look at each reads it again."""
    hours: list[float] = []
    clocks = SimpleNamespace(
        monotonic=lambda: time.monotonic() + 3600 * len(hours), thread_time=time.thread_time, time=time.time
    )
    monkeypatch.setattr(checkpoint_reader, "time", clocks)
    return lambda: hours.append(1)
