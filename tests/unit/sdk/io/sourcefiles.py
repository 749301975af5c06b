"""For tests of files as sources: writes them, and reads them as a driver would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.lowlevel.injectors.injector import Delivery
from headrace.runners.local.executor import Scheduler
from headrace.sdk.transforms.core.low_level import Source

Rows = list[list[tuple[object, int]]]


def write(path: Path, text: str | bytes) -> str:
    """Make a file, and its folder; its path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


class OneByOne(Scheduler):
    """About one record an epoch."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        return 1


def planned(source: Source, limit: int = 1_000_000, splits: int = 1) -> Iterator[tuple[Rows, Delivery]]:
    """All deliveries of a source, as a driver would ask for them, each after the rows of its splits."""
    injector = source.injector()
    position = injector.start()
    while True:
        delivery = injector.plan(position, limit, splits)
        yield [[row for batch in split.read() for row in batch.rows()] for split in delivery.splits], delivery
        position = delivery.position
        if delivery.done:
            return


def all_rows(source: Source, limit: int = 1_000_000, splits: int = 1) -> list[tuple[object, int]]:
    """The rows of all deliveries of a source."""
    return [row for delivered, _ in planned(source, limit, splits) for rows in delivered for row in rows]


class Crash(BaseException):
    """What no `except Exception` takes for a failure of user code."""


class CrashAt(OneByOne):
    """Crashes at a step of the third epoch."""

    def __init__(self, step):
        super().__init__()
        self._step = step

    def step(self, name, epoch):
        if (name, epoch) == (self._step, 3):
            raise Crash
