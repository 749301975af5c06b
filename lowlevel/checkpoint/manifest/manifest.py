"""The commit of one epoch as a value: everything that is true once its log entry exists (paper §6.2).

An entry is JSON that any later release can read, and beside it the bytes that only their owners understand (injector
positions, productions on their way, sinks' receipts). When those are many they lie in an object of their own, written
first, so that the entry itself stays small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.lowlevel.checkpoint import envelope
from headrace.lowlevel.checkpoint.archive import Archived, decode_archive, encode_archive
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.delta_file import DeltaFile
from headrace.lowlevel.checkpoint.fingerprint import Fingerprint
from headrace.lowlevel.checkpoint.planrows import plan_of_row, plan_row
from headrace.lowlevel.intervals import Interval, IntervalMap
from headrace.lowlevel.lateness import Lateness
from headrace.lowlevel.sequencer import Sequencer
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.watermark import InjectorProgress
from headrace.lowlevel.watermarkmap import decoded

KIND = "commit"
FORMAT_VERSION = 3
"""Of everything in `Manifest`. Change it with the fields."""
BLOBS_KIND = "commit's bulk"
_INLINE_BYTES = 64 * 1024
_UNKNOWN = Fingerprint(())


SINK_LEVEL = 0
"""The level of pending productions that a sink has not acknowledged; computations are on level 1 and deeper."""


class PendingProduction(NamedTuple):
    """A production that is part of the commit and is delivered with the next epoch."""

    level: int
    """Of its consumer, or `SINK_LEVEL`."""
    interval: int
    consumer: str
    oldest: int
    """Least timestamp in it, microseconds UTC."""
    data: bytes


class Holder(NamedTuple):
    """Who keeps a computation's output watermark back."""

    timestamp: int
    """Microseconds UTC."""
    key: bytes
    """Encoded."""
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A committed epoch. Persisted: every field. Times are microseconds UTC, (level, interval) is a task's place."""

    epoch: int
    wall_clock: int
    """The epoch's reading of the wall clock."""
    intervals: Mapping[int, IntervalMap]
    """Level -> its key intervals."""
    positions: Mapping[str, bytes] = field(default_factory=dict)
    """Injector stream -> where its next delivery starts."""
    ended: frozenset[str] = frozenset()
    """Injector streams whose input has ended."""
    injector_watermarks: Mapping[str, int] = field(default_factory=dict)
    greatest_timestamps: Mapping[str, int] = field(default_factory=dict)
    """Injector stream -> greatest timestamp seen."""
    lateness: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Injector stream -> `Lateness.counts` of recent records, where a consumer asks for a percentile."""
    input_watermarks: Mapping[str, int] = field(default_factory=dict)
    """Computation -> its input low watermark."""
    output_watermarks: Mapping[str, bytes] = field(default_factory=dict)
    """Computation -> low watermarks of its intervals, as `Authority.journal` has them; see `watermarks_of`."""
    holds: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Computation -> interval -> oldest hold."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    """Computation -> who has its oldest hold."""
    wall_timers: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Computation -> interval -> when its earliest wall-time timer is due."""
    deltas: Mapping[tuple[int, int], DeltaFile | None] = field(default_factory=dict)
    """Place -> what this epoch changed there; None or absent where nothing changed."""
    pending: tuple[PendingProduction, ...] = ()
    receipts: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """Sink -> receipts of this epoch."""
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Step -> counter -> total since the pipeline first started."""
    metrics: bytes = b""
    """What user code counted since then, as `encode_metrics` makes it."""
    finished: bool = False
    """Whether all input has ended and nothing is left to do."""
    # The rest is filled in by `Checkpoint.commit`.
    generation: int = 0
    """Of the driver that committed."""
    owner: str = ""
    """That driver, as it describes itself."""
    previous: int = 0
    """Place in the log of the commit before; 0 if this is the first."""
    topology: Fingerprint = _UNKNOWN
    plans: Mapping[tuple[int, int], CopyPlan] = field(default_factory=dict)
    """Place -> all files that make up its state."""
    archive: tuple[Archived, ...] = ()
    """What was removed from the topology."""
    left: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Level -> computations that are not on it any more, but of which its files may still tell."""

    @property
    def is_over(self) -> bool:
        """What `finished` is to say of a commit: its other fields know whether anything can still happen."""
        if self.pending or not self.ended >= self.positions.keys():
            return False
        # A timer that holds has more to say, be it to sinks alone.
        if any(held and self.wall_timers.get(name) for name, held in self.holds.items()):
            return False
        return all(watermark == MAX_TIMESTAMP for watermark in self.input_watermarks.values())

    def injectors(self) -> dict[str, InjectorProgress]:
        """Injector stream -> how far it is."""
        return {
            stream: InjectorProgress(
                watermark, self.greatest_timestamps[stream], lateness=Lateness(self.lateness.get(stream, {}))
            )
            for stream, watermark in self.injector_watermarks.items()
        }

    def watermarks_of(self, computation: str) -> dict[int, int]:
        """Interval -> its low watermark as the authority knew it, microseconds UTC. Raises KeyError."""
        values = decoded(self.output_watermarks[computation]).tolist()
        levels = {name: level for level, names in enumerate(self.topology.levels, 1) for name in names}
        numbers = [interval.number for interval in self.intervals[levels[computation]]]
        return dict(zip(numbers, values, strict=True))


class Encoded(NamedTuple):
    """A manifest as bytes."""

    entry: bytes
    blobs: bytes | None
    """Contents of the object that holds the bulk; None if there is none."""


def encode_manifest(manifest: Manifest, blobs_path: str) -> Encoded:
    """The bytes of a commit. If its bulk does not fit into the entry it is to be written to `blobs_path`, first."""
    blobs = [
        *manifest.positions.values(),
        *(holder.key for holder in manifest.holders.values()),
        *(production.data for production in manifest.pending),
        *(receipt for receipts in manifest.receipts.values() for receipt in receipts),
        *filter(None, [manifest.metrics]),
        *manifest.output_watermarks.values(),
    ]
    apart = sum(map(len, blobs)) > _INLINE_BYTES
    head = json.dumps(_head(manifest) | {"blobs": blobs_path if apart else None}).encode()
    plans = json.dumps(list(map(plan_row, manifest.plans.values()))).encode()
    parts = [head, manifest.topology.encode(), plans, encode_archive(manifest.archive)]
    entry = envelope.wrap(KIND, FORMAT_VERSION, parts if apart else parts + blobs)
    return Encoded(entry, envelope.wrap(BLOBS_KIND, FORMAT_VERSION, blobs) if apart else None)


def decode_manifest(parts: list[memoryview], blobs: list[memoryview] | None = None) -> Manifest:
    """Back from the unwrapped parts of an entry, and those of its bulk where that is an object of its own."""
    content = json.loads(bytes(parts[0]))
    plain: dict[str, Any] = {name: content[name] for name in _PLAIN}
    plain |= {name: _by_interval(content[name]) for name in _BY_INTERVAL}
    data = iter(map(bytes, parts[4:] if blobs is None else blobs))
    positions = {stream: next(data) for stream in content["positions"]}
    holders = {name: Holder(timestamp, next(data), tag) for name, timestamp, tag in content["holders"]}
    pending = tuple(PendingProduction(a, b, c, d, next(data)) for a, b, c, d in content["pending"])
    receipts = {sink: tuple(next(data) for _ in range(count)) for sink, count in content["receipts"]}
    metrics = next(data) if content["metrics"] else b""
    return Manifest(
        **plain,
        intervals={level: IntervalMap(tuple(map(_interval, of))) for level, of in content["intervals"]},
        ended=frozenset(content["ended"]),
        deltas={(level, i): file and DeltaFile(*file) for level, i, file in content["deltas"]},
        positions=positions,
        holders=holders,
        pending=pending,
        receipts=receipts,
        metrics=metrics,
        output_watermarks={name: next(data) for name in content["output_watermarks"]},
        topology=Fingerprint.decode(bytes(parts[1])),
        archive=decode_archive(bytes(parts[3])),
        left={level: frozenset(names) for level, names in content["left"]},
        plans={(plan.level, plan.interval): plan for plan in map(plan_of_row, json.loads(bytes(parts[2])))},
    )


def blobs_of(parts: list[memoryview]) -> str | None:
    """Name of the object that holds an entry's bulk; None if it is in the entry."""
    path: str | None = json.loads(bytes(parts[0]))["blobs"]
    return path


_PLAIN = (
    *("epoch", "wall_clock", "injector_watermarks", "greatest_timestamps", "input_watermarks", "counters"),
    *("finished", "generation", "owner", "previous"),
)
"""Fields that JSON gives back as they were."""
_BY_INTERVAL = ("holds", "wall_timers", "lateness")


def _head(manifest: Manifest) -> dict[str, object]:
    return {
        **{name: getattr(manifest, name) for name in (*_PLAIN, *_BY_INTERVAL)},
        "intervals": [(level, of.intervals) for level, of in manifest.intervals.items()],
        "ended": sorted(manifest.ended),
        "deltas": [(*place, file) for place, file in manifest.deltas.items()],
        "positions": list(manifest.positions),
        "holders": [(name, holder.timestamp, holder.tag) for name, holder in manifest.holders.items()],
        "pending": [production[:-1] for production in manifest.pending],
        "metrics": bool(manifest.metrics),
        "output_watermarks": list(manifest.output_watermarks),
        "left": [(level, sorted(names)) for level, names in manifest.left.items()],
        "receipts": [(sink, len(receipts)) for sink, receipts in manifest.receipts.items()],
    }


def _by_interval(content: dict[str, dict[str, int]]) -> dict[str, dict[int, int]]:
    return {name: {int(interval): value for interval, value in of.items()} for name, of in content.items()}


def _interval(row: list[Any]) -> Interval:
    number, start, stop, owner, sequencer = row
    return Interval(number, start, stop, owner, Sequencer(*sequencer))
