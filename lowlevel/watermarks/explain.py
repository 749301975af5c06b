"""Who keeps a low watermark back: an injector, a hold, or a production on its way (MillWheel paper §4.5, §5.2).

    low watermark of A = min(oldest work of A, low watermark of C: C outputs to A)

Spelled out, that is the least of everything unfinished at A or anywhere before it. So whoever has that least is whom A
waits for, and the way from there to A is the chain of computations between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace

from headrace.lowlevel.checkpoint import Holder, Manifest
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.plaindata import PLAIN
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from headrace.lowlevel.topology import Topology
from headrace.lowlevel.watermark import InjectorProgress, ignored


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a run is, as it is in its last commit. Times are microseconds UTC."""

    watermarks: Mapping[str, int] = field(default_factory=dict)
    """Computation -> its input low watermark."""
    injectors: Mapping[str, InjectorProgress] = field(default_factory=dict)
    """Injector stream -> how far it is."""
    positions: Mapping[str, object] = field(default_factory=dict)
    """Injector stream -> where its next delivery starts."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    """Computation -> who has its oldest hold."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """Computation -> the oldest production that waits for delivery to it."""
    holds: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Computation -> interval -> oldest hold."""
    intervals: Mapping[int, Sized] = field(default_factory=dict)
    """Level -> its key intervals."""

    @classmethod
    def of(cls, manifest: Manifest) -> Standing:
        """The standing of a checkpoint, from `CheckpointView.manifest`."""
        pending: dict[str, int] = {}
        levels = [set(), *map(set, manifest.topology.levels)]
        # What a sink has not acknowledged keeps no watermark back.
        for item in (one for one in manifest.pending if one.consumer in levels[one.level]):
            pending[item.consumer] = min(item.oldest, pending.get(item.consumer, item.oldest))
        positions = {stream: PLAIN.decode(position) for stream, position in manifest.positions.items()}
        injectors, holds = manifest.injectors(), (manifest.holds, manifest.intervals)
        return cls(manifest.input_watermarks, injectors, positions, manifest.holders, pending, *holds)


@dataclass(frozen=True, slots=True)
class Injected:
    """An injector has got no further."""

    stream: str
    timestamp: int
    holder: str | None = None
    """Whom or what it waits for itself, in words, as far as it knows."""

    def __str__(self) -> str:
        waits = f": it waits for {self.holder}" if self.holder else ""
        return f"injector {self.stream!r} is at {shown(self.timestamp)}{waits}"


@dataclass(frozen=True, slots=True)
class Held:
    """A state or timer of a key is not finished."""

    step: str
    timestamp: int
    key: object = None
    """None where it is not known: of an interval that is not the slowest."""
    tag: str = ""

    def __str__(self) -> str:
        place = f"for key {self.key!r:.200} (hold {self.tag!r}, {date_of(self.timestamp)})"
        return f"step {self.step!r} holds the watermark at {self.timestamp} {place}"


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A production is in the commit and not yet processed."""

    step: str
    timestamp: int

    def __str__(self) -> str:
        return f"a production for step {self.step!r} at {shown(self.timestamp)} arrives with the next epoch"


Cause = Injected | Held | Undelivered


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a computation's input low watermark is where it is."""

    step: str
    watermark: int
    """Microseconds UTC."""
    cause: Cause | None
    """Who has the oldest work before it; None if nothing before it is unfinished."""
    chain: tuple[str, ...] = ()
    """Computations between the cause and the step, in the direction of the records, the step last."""
    percentile: float | None = None
    """That of the first computation after the cause that strips outliers."""

    def __str__(self) -> str:
        """In words.

        >>> print(Explanation("c", 5, Held("a", 5, "britney", "window"), ("b", "c")))
        the input low watermark of step 'c' is 5 (1970-01-01T00:00:00.000005Z)
          step 'a' holds the watermark at 5 for key 'britney' (hold 'window', 1970-01-01T00:00:00.000005Z)
          it is passed on by 'b'
        """
        lines = [f"the input low watermark of step {self.step!r} is {shown(self.watermark)}"]
        if self.cause is None:
            lines.append("nothing before it is unfinished")
        else:
            lines.append(str(self.cause))
            if self.cause.timestamp > self.watermark:
                lines.append("nothing else keeps it back: it moves with the next epoch")
        if self.percentile is not None:
            lines.append(f"that ignores the slowest {100 - self.percentile:g} of 100")
        if between := self.chain[:-1]:
            lines.append(f"it is passed on by {', '.join(map(repr, between))}")
        return "\n  ".join(lines)


def explain(topology: Topology, standing: Standing, step: str) -> Explanation:
    """What keeps the input low watermark of a step back.

    Of several causes that are equally old the nearest one. Raises `TopologyError` if there is no such computation.
    """
    if step not in topology.keyed:
        known = ", ".join(topology.keyed) or "none"
        raise TopologyError(f"there is no computation {step!r} (computations: {known}); correct the name")
    watermark = standing.watermarks.get(step, MIN_TIMESTAMP)
    causes = [found for found in _Search(topology, standing).before(step) if found[0].timestamp < MAX_TIMESTAMP]
    if not causes:
        return Explanation(step, watermark, None)
    cause, chain, percentile = min(causes, key=lambda found: (found[0].timestamp, len(found[1])))
    return Explanation(step, watermark, cause, chain, percentile)


def furthest_back(topology: Topology, standing: Standing) -> Explanation:
    """The explanation of the computation whose input low watermark is the least."""
    step = min(topology.keyed, key=lambda name: standing.watermarks.get(name, MIN_TIMESTAMP))
    return explain(topology, standing, step)


_Found = tuple[Cause, tuple[str, ...], float | None]
"""What is unfinished, the way from there to the step, and the percentile by which that is seen."""


class _Search:
    """Goes from a step to everything that is unfinished at it or before it."""

    def __init__(self, topology: Topology, standing: Standing) -> None:
        self._topology, self._standing = topology, standing
        self._senders, self._sources = topology.senders(aside=False), topology.sources(aside=False)
        levels = enumerate(topology.levels(), 1)
        self._level_of = {name: level for level, names in levels for name in names}

    def before(self, step: str) -> Iterator[_Found]:
        """Nearest first. Whoever strips outliers sees all before it so, up to the next one that does."""
        own = self._topology.keyed[step].watermark_percentile
        ways: list[tuple[tuple[str, ...], float | None]] = [((step,), own)]
        seen = {(step, own)}
        for way, percentile in ways:
            name = way[0]
            for stream in sorted(self._sources[name]):
                yield self._injected(stream, percentile), way, percentile
            if name in self._standing.pending:
                yield Undelivered(name, self._standing.pending[name]), way, percentile
            for sender in sorted(self._senders[name]):
                yield from ((held, way, percentile) for held in self._held(sender, percentile))
                chosen = self._topology.keyed[sender].watermark_percentile
                sees = percentile if chosen is None else chosen
                if (sender, sees) not in seen:
                    seen.add((sender, sees))
                    ways.append(((sender, *way), sees))

    def _injected(self, stream: str, percentile: float | None) -> Injected:
        injector, positions = self._topology.injectors[stream], self._standing.positions
        progress = replace(self._standing.injectors.get(stream, InjectorProgress()), delay=injector.max_delay)
        # Not every injector can say whom it waits for.
        holder = getattr(injector, "holder", None)
        waits = None if holder is None or stream not in positions else holder(positions[stream])
        return Injected(stream, progress.low_watermark(percentile), waits)

    def _held(self, step: str, percentile: float | None) -> Iterator[Held]:
        if (holder := self._standing.holders.get(step)) is None:
            return
        held = sorted(self._standing.holds.get(step, {}).values())
        count = len(self._standing.intervals.get(self._level_of[step], held))
        skipped = 0 if percentile is None else ignored(count, percentile)
        if skipped == 0 or not held:
            key = self._topology.keyed[step].key_coder.decode(holder.key)
            yield Held(step, holder.timestamp, key, holder.tag)
        elif skipped < len(held):
            yield Held(step, held[skipped])


def shown(timestamp: int) -> str:
    """A timestamp for people: microseconds, and the date if there is one.

    >>> shown(0), shown(MIN_TIMESTAMP)
    ('0 (1970-01-01T00:00:00Z)', 'the beginning of time')
    """
    return date_of(timestamp) if timestamp in (MIN_TIMESTAMP, MAX_TIMESTAMP) else f"{timestamp} ({date_of(timestamp)})"


def date_of(timestamp: int) -> str:
    """The date and time UTC of a timestamp, as far as calendars go."""
    try:
        return Timestamp(micros=timestamp).to_rfc3339()
    except OverflowError:
        ends = {MIN_TIMESTAMP: "the beginning of time", MAX_TIMESTAMP: "the end of time"}
        return ends.get(timestamp, "before year 1" if timestamp < 0 else "after year 9999")
