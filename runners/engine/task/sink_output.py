"""Rows from a task to sinks: strong productions are staged, weak ones released at once (paper §6.1.2, §6.1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

from headrace.lowlevel.metric import at
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import AgreeingSink, ReleasingSink, Sink
from headrace.runners.engine.background_calls import PendingCall, Release
from headrace.runners.engine.messages import EpochSpec, Report
from headrace.runners.engine.released_rows import straggler
from headrace.runners.engine.sink_errors import failing


class ReleaseHost(Protocol):
    """The part of `Host` that begins releases."""

    def begin_release(self, release: Release) -> PendingCall:
        """Begin a release while the task goes on."""


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """The rows of one attempt at a task."""

    sinks: Mapping[str, tuple[str, Sink]]
    releasing: Mapping[str, ReleasingSink]
    """Sinks that get their rows before the commit."""
    host: ReleaseHost
    spec: EpochSpec
    report: Report

    def send(self, rows: Mapping[str, Batch]) -> None:
        """Release weak productions, stage strong ones, then wait for acknowledgements."""
        calls = {name: self._release(name, batch) for name, batch in rows.items() if name in self.releasing}
        for name, batch in rows.items():
            self.report.counters.setdefault(name, {})["rows"] = len(batch)
            if name not in calls:
                self._stage(name, batch)
        for name, call in calls.items():
            with failing(name):
                acknowledged = call.wait(self.spec.straggler_delay)
            if not acknowledged:
                # The rows become part of the commit, so that neither the task nor the epoch waits longer.
                self.report.pending.append(straggler(name, rows[name], *self._attempt()))
                self.report.counters[name]["stragglers"] = len(rows[name])

    def _release(self, name: str, batch: Batch) -> PendingCall:
        with failing(name):
            return self.host.begin_release(partial(self.releasing[name].release, batch, *self._attempt()))

    def _stage(self, name: str, batch: Batch) -> None:
        sink, agreement = self.sinks[name][1], self.spec.agreements.get(name)
        with failing(name), at(name):
            if agreement is not None:
                cast(AgreeingSink, sink).agree(agreement)
            receipt = sink.stage(batch, *self._attempt())
        if receipt is not None:
            self.report.receipts[name] = receipt

    def _attempt(self) -> tuple[int, int, str]:
        sender = self.report.sender
        return self.spec.epoch, sender.index, sender.token
