"""What holds a low watermark back: an injector, a hold, or a pending production (MillWheel paper §4.5, §5.2).

    low watermark of A = min(oldest work of A, low watermark of C: C outputs to A)

So the low watermark of A is the timestamp of the oldest unfinished work at A or upstream of it. That work is what A
waits for, and the explanation names the chain of computations from it to A.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.injectors.injector import HeldInjector
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.authority import Holder
from headrace.lowlevel.watermarks.lateness import STRICT, LowWatermark
from headrace.lowlevel.watermarks.propagation import InjectorProgress, Propagation, too_far_ahead


@dataclass(frozen=True, slots=True)
class WatermarkState:
    """Watermarks and everything that holds them back, as of the last commit. Times are microseconds UTC."""

    watermarks: Mapping[str, int] = field(default_factory=dict)
    """Computation -> its input low watermark."""
    injectors: Mapping[str, InjectorProgress] = field(default_factory=dict)
    """Injector stream -> progress of the injector."""
    positions: Mapping[str, object] = field(default_factory=dict)
    """Injector stream -> where its next delivery starts."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    """Computation -> the holder of its oldest hold."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """Computation -> timestamp of the oldest pending production for it."""
    holds: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Computation -> interval -> oldest hold."""
    intervals: Mapping[int, Sized] = field(default_factory=dict)
    """Level -> its key intervals, of which only the number counts."""
    skew_limit: float | None = None
    """Seconds that an injector may be ahead of the one that is furthest behind; None for no limit."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A cause: the watermark of an injector."""

    stream: str
    timestamp: int
    holder: str | None = None
    """Description of what the injector waits for; None if it is unknown."""

    def __str__(self) -> str:
        waits = f": it waits for {self.holder}" if self.holder else ""
        return f"source {self.stream!r} is at {timestamp_text(self.timestamp)}{waits}"


@dataclass(frozen=True, slots=True)
class Held:
    """A cause: a hold of a key or of one of its timers."""

    step: str
    timestamp: int
    key: object = None
    """The key; None if the hold is not the computation's oldest, because only the oldest hold's key is known."""
    tag: str = ""

    def __str__(self) -> str:
        hold = f"for key {self.key!r:.200} (hold {self.tag!r}, {date_of(self.timestamp)})"
        return f"step {self.step!r} holds the watermark at {self.timestamp} {hold}"


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A cause: a pending production, which is committed but not processed."""

    step: str
    timestamp: int

    def __str__(self) -> str:
        return f"a production for step {self.step!r} at {timestamp_text(self.timestamp)} arrives with the next epoch"


Cause = Injected | Held | Undelivered


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a computation's input low watermark is where it is."""

    step: str
    watermark: int
    """Microseconds UTC."""
    cause: Cause | None
    """The oldest unfinished work upstream; None if there is none."""
    chain: tuple[str, ...] = ()
    """Computations from the cause to the step, downstream; the step is the last."""
    low: LowWatermark = STRICT
    """The low watermark of the first computation downstream of the cause that has one of its own."""

    def __str__(self) -> str:
        """The explanation in one to four lines.

        >>> print(Explanation("c", 5, Held("a", 5, "britney", "window"), ("b", "c")))
        the input low watermark of step 'c' is 5 (1970-01-01T00:00:00.000005Z)
          step 'a' holds the watermark at 5 for key 'britney' (hold 'window', 1970-01-01T00:00:00.000005Z)
          it is passed on by 'b'
        """
        lines = [f"the input low watermark of step {self.step!r} is {timestamp_text(self.watermark)}"]
        if self.cause is None:
            lines.append("there is no unfinished work upstream")
        else:
            lines.append(str(self.cause))
            if self.cause.timestamp > self.watermark:
                lines.append("nothing else keeps it back: it moves with the next epoch")
        if self.low != STRICT:
            lines.append(str(self.low))
        if between := self.chain[:-1]:
            lines.append(f"it is passed on by {', '.join(map(repr, between))}")
        return "\n  ".join(lines)


def explain(topology: Topology, state: WatermarkState, step: str) -> Explanation:
    """Explain what holds back the input low watermark of a step: the oldest cause, of equally old ones the nearest.

    Raises `TopologyError` if there is no such computation.
    """
    if step not in topology.keyed:
        known = ", ".join(topology.keyed) or "none"
        raise TopologyError(f"there is no computation {step!r} (computations: {known}); correct the name")
    watermark = state.watermarks.get(step, MIN_TIMESTAMP)
    causes = [found for found in _HoldSearch(topology, state).upstream(step) if found[0].timestamp < MAX_TIMESTAMP]
    if not causes:
        return Explanation(step, watermark, None)
    cause, chain, low = min(causes, key=lambda found: (found[0].timestamp, len(found[1])))
    return Explanation(step, watermark, cause, chain, low)


def furthest_back(topology: Topology, state: WatermarkState) -> Explanation:
    """Explain the least of all input low watermarks."""
    step = min(topology.keyed, key=lambda name: state.watermarks.get(name, MIN_TIMESTAMP))
    return explain(topology, state, step)


_Found = tuple[Cause, tuple[str, ...], LowWatermark]
"""A cause, the computations from the cause to the step, and the low watermark that applies."""


class _HoldSearch:
    """Finds all unfinished work at a step and upstream of it."""

    def __init__(self, topology: Topology, state: WatermarkState) -> None:
        self._topology, self._state, self._flow = topology, state, Propagation(topology)

    def upstream(self, step: str) -> Iterator[_Found]:
        """Unfinished work, nearest first. A low watermark applies upstream, up to the next computation with its own."""
        chains: list[tuple[tuple[str, ...], LowWatermark]] = [((step,), self._flow.own[step])]
        seen = {(step, self._flow.own[step])}
        for chain, low in chains:
            name = chain[0]
            for stream in sorted(self._flow.sources[name]):
                yield self._injected(stream, low), chain, low
            if name in self._state.pending:
                yield Undelivered(name, self._state.pending[name]), chain, low
            for sender in sorted(self._flow.senders[name]):
                yield from ((held, chain, low) for held in self._held(sender, low))
                own = self._flow.own[sender]
                applied = low if own == STRICT else own
                if (sender, applied) not in seen:
                    seen.add((sender, applied))
                    chains.append(((sender, *chain), applied))

    def _injected(self, stream: str, low: LowWatermark) -> Injected:
        injector, positions = self._topology.injectors[stream], self._state.positions
        progress = replace(self._state.injectors.get(stream, InjectorProgress()), delay=injector.max_delay)
        waits = skew_holder(stream, self._state.injectors, self._state.skew_limit)
        if waits is None and isinstance(injector, HeldInjector) and stream in positions:
            waits = injector.holder(positions[stream])
        return Injected(stream, progress.low_watermark(low), waits)

    def _held(self, step: str, low: LowWatermark) -> Iterator[Held]:
        if (holder := self._state.holders.get(step)) is None:
            return
        holds = sorted(self._state.holds.get(step, {}).values())
        skipped = low.skipped(len(self._state.intervals.get(self._flow.level_of[step], holds)))
        if skipped == 0 or not holds:
            key = self._topology.keyed[step].key_coder.decode(holder.key)
            yield Held(step, holder.timestamp, key, holder.tag)
        elif skipped < len(holds):
            yield Held(step, holds[skipped])


def skew_holder(stream: str, injectors: Mapping[str, InjectorProgress], limit: float | None) -> str | None:
    """What an injector waits for that the skew limit (seconds) does not let read on; None if it may read.

    >>> slow, quick = InjectorProgress(watermark=0), InjectorProgress(watermark=90_000_000, greatest=100_000_000)
    >>> skew_holder("quick", {"slow": slow, "quick": quick}, 60)
    "source 'slow', which is at 0 (1970-01-01T00:00:00Z), more than --skew_limit=60 seconds behind"
    """
    if stream not in too_far_ahead(injectors, limit):
        return None
    last = min(injectors, key=lambda name: injectors[name].watermark)
    behind = timestamp_text(injectors[last].watermark)
    return f"source {last!r}, which is at {behind}, more than --skew_limit={limit:g} seconds behind"


def timestamp_text(timestamp: int) -> str:
    """Format a timestamp as microseconds and date, or in words at the ends of time.

    >>> timestamp_text(0), timestamp_text(MIN_TIMESTAMP)
    ('0 (1970-01-01T00:00:00Z)', 'the beginning of time')
    """
    return date_of(timestamp) if timestamp in (MIN_TIMESTAMP, MAX_TIMESTAMP) else f"{timestamp} ({date_of(timestamp)})"


def date_of(timestamp: int) -> str:
    """Format a timestamp as date and time UTC, or in words if no `datetime` can express it."""
    try:
        return Timestamp(micros=timestamp).to_rfc3339()
    except OverflowError:
        ends = {MIN_TIMESTAMP: "the beginning of time", MAX_TIMESTAMP: "the end of time"}
        return ends.get(timestamp, "before year 1" if timestamp < 0 else "after year 9999")
