"""Where rows leave a task for sinks: strong ones staged, weak ones released at once (paper §6.1.2, §6.1.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.metric import at
from headrace.lowlevel.record import Batch
from headrace.lowlevel.sink import ReleasingSink, Sink
from headrace.runners.engine.beside import Call, Release
from headrace.runners.engine.epoch import EpochSpec, Report
from headrace.runners.engine.stragglers import straggler


class Beside(Protocol):
    """Begins releases."""

    def beside(self, release: Release) -> Call:
        """Begin one, beside the task."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Of one attempt of a task."""

    sinks: Mapping[str, tuple[str, Sink]]
    releasing: Mapping[str, ReleasingSink]
    """Those that get their rows before the commit."""
    host: Beside
    spec: EpochSpec
    report: Report

    def let_out(self, rows: Mapping[str, Batch]) -> None:
        """Release weak productions, stage strong ones, and see what was acknowledged meanwhile."""
        calls = {name: self._release(name, batch) for name, batch in rows.items() if name in self.releasing}
        for name, batch in rows.items():
            self.report.counters.setdefault(name, {})["rows"] = len(batch)
            if name not in calls:
                self._stage(name, batch)
        for name, call in calls.items():
            with failing(name):
                acknowledged = call.wait(self.spec.straggler_delay)
            if not acknowledged:
                # The commit has it then, so that nobody waits.
                self.report.pending.append(straggler(name, rows[name], *self._attempt()))
                self.report.counters[name]["stragglers"] = len(rows[name])

    def _release(self, name: str, batch: Batch) -> Call:
        with failing(name):
            return self.host.beside(partial(self.releasing[name].release, batch, *self._attempt()))

    def _stage(self, name: str, batch: Batch) -> None:
        with failing(name), at(name):
            receipt = self.sinks[name][1].stage(batch, *self._attempt())
        if receipt is not None:
            self.report.receipts[name] = receipt

    def _attempt(self) -> tuple[int, int, str]:
        sender = self.report.sender
        return self.spec.epoch, sender.index, sender.token


@contextmanager
def failing(sink: str) -> Iterator[None]:
    """What a sink's code raises is that step's failure."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise failed_step(error, sink, None, None) from error
