"""streamz: the events pushed through a stream one by one, with an accumulator for each workload.

streamz has no event time, no keyed state and no windows that end by themselves, so these are written out here: a minute
is over when the greatest event time so far has passed it by the greatest delay. It has no sessions, so there is no W2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streamz import Stream

from benchmarks.peers.foreign.arrivals import Event, Rows, events
from benchmarks.peers.foreign.protocol import Job
from benchmarks.peers.foreign.serving import serve

Sums = dict[str, int]
_END: Event = ("", 0, 1 << 62)
"""Comes last, and is in no result."""


@dataclass
class _Minutes:
    """Sums by key of the minutes that are not over."""

    length: int
    delay: int
    open: dict[int, Sums] = field(default_factory=dict)
    due: int = 1 << 62
    """From which event time on a minute is over."""

    def take(self, event: Event) -> list[tuple[int, Sums]]:
        """Add an event; the minutes that are over by it, in order."""
        key, value, timestamp = event
        over = self._close(timestamp - self.delay) if timestamp >= self.due else []
        if event is not _END:
            start = timestamp - timestamp % self.length
            sums = self.open.get(start)
            if sums is None:
                sums = self.open[start] = {}
                self.due = min(self.due, start + self.length + self.delay)
            sums[key] = sums.get(key, 0) + value
        return over

    def _close(self, watermark: int) -> list[tuple[int, Sums]]:
        over = sorted(start for start in self.open if start + self.length <= watermark)
        closed = [(start, self.open.pop(start)) for start in over]
        self.due = min(self.open, default=1 << 61) + self.length + self.delay
        return closed


def _add(minutes: _Minutes, event: Event) -> tuple[_Minutes, list[tuple[int, Sums]]]:
    return minutes, minutes.take(event)


def _sums(minute: tuple[int, Sums]) -> list[tuple[str, int, int]]:
    start, sums = minute
    return [(key, start, total) for key, total in sums.items()]


def _totals(totals: Sums, minute: tuple[int, Sums], length: int) -> tuple[Sums, list[tuple[str, int, int]]]:
    start, sums = minute
    for key, total in sums.items():
        totals[key] = totals.get(key, 0) + total
    return totals, [(key, start + length, totals[key]) for key in sums]


def _run(job: Job) -> Rows:
    rows: list[tuple[str, int, int]] = []
    source = Stream()
    closed = source.accumulate(_add, returns_state=True, start=_Minutes(job.window, job.delay)).flatten()
    if job.workload == "W1":
        reported = closed.map(_sums)
    else:
        reported = closed.accumulate(_totals, returns_state=True, start={}, length=job.window)
    reported.sink(rows.extend)
    for path in job.many:
        for event in events(path):
            source.emit(event)
    source.emit(_END)
    return rows


if __name__ == "__main__":
    serve(lambda: dict.fromkeys(("W1", "W3"), _run))
