"""The manifest: the contents of one epoch's commit, and its encoding as a log entry (MillWheel paper §6.2).

An entry consists of JSON, of the small delta files that it carries, and of opaque bytes (such as injector positions,
pending productions and receipts of sinks). If these bytes are many, they are in an object of their own, the bulk, which
is written first; the entry stays small.

The archive is state of removed computations and positions of removed injectors, kept until restored or discarded. It is
part of every later commit, so the files that it names are never garbage. The file chains of a commit are those of the
commit before, changed by new deltas, snapshots and key intervals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.lowlevel.checkpoint.files.delta_file import (
    ENTRY_KIND,
    ENTRY_VERSION,
    PART,
    DeltaFile,
    carried_files,
    carried_part,
)
from headrace.lowlevel.checkpoint.files.file_chain import FileChain, Origin, chain_of_row, chain_row
from headrace.lowlevel.checkpoint.files.snapshot import SnapshotParts
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint, Member
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.records.column_block import decode_block
from headrace.lowlevel.storage import envelope
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.watermarks.authority import Holder, decoded
from headrace.lowlevel.watermarks.lateness import Lateness
from headrace.lowlevel.watermarks.propagation import InjectorProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """An archived computation or injector. Persisted: every field. Times are microseconds UTC."""

    member: Member
    epoch: int
    """The last epoch in which it was part of the topology."""
    watermark: int = MIN_TIMESTAMP
    """The input low watermark of a computation, or the low watermark of an injector."""
    chains: tuple[FileChain, ...] = ()
    """The file chains with a computation's state and timers, which also contain others of its level."""
    hold: tuple[int, bytes, str] | None = None
    """A computation's oldest hold: timestamp, encoded key, tag."""
    wall_timer: int | None = None
    """The time at which a computation's earliest wall-time timer is due; None if there is none."""
    position: bytes = b""
    """The encoded position of an injector's next delivery."""
    greatest: int = MIN_TIMESTAMP
    """The greatest timestamp that an injector has delivered."""
    ended: bool = False
    """Whether an injector's input had ended."""

    @property
    def name(self) -> tuple[str, str]:
        """Kind and name of the member."""
        return self.member.kind, self.member.name


_OF_ARCHIVED = ("epoch", "watermark", "wall_timer", "greatest", "ended")


def encode_archive(archive: Iterable[Archived]) -> bytes:
    """Encode the archive as JSON."""
    return json.dumps([_row(archived) for archived in archive]).encode()


def decode_archive(data: bytes) -> tuple[Archived, ...]:
    """Decode the result of `encode_archive`."""
    return tuple(
        Archived(
            **{name: row[name] for name in _OF_ARCHIVED},
            member=Fingerprint.decode(row["member"].encode()).members[0],
            chains=tuple(map(chain_of_row, row["plans"])),
            hold=row["hold"] and (row["hold"][0], bytes.fromhex(row["hold"][1]), row["hold"][2]),
            position=bytes.fromhex(row["position"]),
        )
        for row in json.loads(data)
    )


def _row(archived: Archived) -> dict[str, object]:
    return {
        **{name: getattr(archived, name) for name in _OF_ARCHIVED},
        "member": Fingerprint((archived.member,)).encode().decode(),
        "plans": list(map(chain_row, archived.chains)),
        "hold": archived.hold and (archived.hold[0], archived.hold[1].hex(), archived.hold[2]),
        "position": archived.position.hex(),
    }


KIND, FORMAT_VERSION = ENTRY_KIND, ENTRY_VERSION
"""Kind and format version of `Manifest`. The version must change whenever the fields change."""
BLOBS_KIND = "commit's bulk"
_INLINE_BYTES = 64 * 1024
_UNKNOWN = Fingerprint(())


SINK_LEVEL = 0
"""The level of pending productions that a sink has not acknowledged; computations are on level 1 and deeper."""


class PendingProduction(NamedTuple):
    """A production in a commit that is delivered with the next epoch. Persisted: every field."""

    level: int
    """The level of its consumer; `SINK_LEVEL` for rows that a sink has not acknowledged."""
    interval: int
    consumer: str
    oldest: int
    """Least timestamp of its records, microseconds UTC, which holds the consumer's watermark."""
    data: bytes
    """An encoded block; for a sink, rows as `runners.engine.productions` encodes them."""

    def divided(self, intervals: IntervalMap) -> list[PendingProduction]:
        """Divide the records of a production for a computation among other intervals."""
        return [
            PendingProduction(self.level, interval.number, self.consumer, block.oldest(), block.encode(stored=True))
            for interval, block in decode_block(self.data, stored=True).divided(intervals).items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A committed epoch. Persisted: every field. Times are microseconds UTC; pairs of int are (level, interval)."""

    epoch: int
    wall_clock: int
    """The wall-clock time of the epoch."""
    intervals: Mapping[int, IntervalMap]
    """Level -> its key intervals."""
    positions: Mapping[str, bytes] = field(default_factory=dict)
    """Injector stream -> encoded position of its next delivery."""
    ended: frozenset[str] = frozenset()
    """Injector streams whose input has ended."""
    injector_watermarks: Mapping[str, int] = field(default_factory=dict)
    greatest_timestamps: Mapping[str, int] = field(default_factory=dict)
    """Injector stream -> greatest timestamp seen."""
    lateness: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Injector stream -> `Lateness.counts` of recent records, where a consumer needs them."""
    skew_limit: float | None = None
    """Seconds that an injector may be ahead of the one that is furthest behind; None for no limit."""
    input_watermarks: Mapping[str, int] = field(default_factory=dict)
    """Computation -> its input low watermark."""
    output_watermarks: Mapping[str, bytes] = field(default_factory=dict)
    """Computation -> low watermarks of its intervals, as `Authority.journal` has them; see `watermarks_of`."""
    holds: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Computation -> interval -> oldest hold."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    """Computation -> holder of its oldest hold."""
    wall_timers: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Computation -> interval -> time of its earliest wall-time timer."""
    deltas: Mapping[tuple[int, int], DeltaFile | None] = field(default_factory=dict)
    """(level, interval) -> the delta file of this epoch; None or absent if there were no changes."""
    pending: tuple[PendingProduction, ...] = ()
    receipts: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """Sink -> its receipts of this epoch."""
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Step -> counter -> total since the pipeline first started."""
    metrics: bytes = b""
    """Metrics of user code since then, from `encode_metrics`."""
    finished: bool = False
    """Whether all input has ended and nothing is left to do."""
    # `Checkpoint.commit` sets the fields below.
    generation: int = 0
    """Generation of the driver that committed."""
    owner: str = ""
    """The driver's description of itself."""
    previous: int = 0
    """Position of the previous commit in the log; 0 if this is the first commit."""
    topology: Fingerprint = _UNKNOWN
    chains: Mapping[tuple[int, int], FileChain] = field(default_factory=dict)
    """(level, interval) -> chain of all files with its state."""
    archive: tuple[Archived, ...] = ()
    """Computations and injectors that were removed from the topology."""
    left: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Level -> computations that left it, whose state may still be in its files."""

    @property
    def is_over(self) -> bool:
        """The value for `finished`, computed from the other fields."""
        if self.pending or not self.ended >= self.positions.keys():
            return False
        # A timer with a hold can still produce output, at least to sinks.
        if any(held and self.wall_timers.get(name) for name, held in self.holds.items()):
            return False
        return all(watermark == MAX_TIMESTAMP for watermark in self.input_watermarks.values())

    def injectors(self) -> dict[str, InjectorProgress]:
        """Injector stream -> its progress."""
        return {
            stream: InjectorProgress(
                watermark, self.greatest_timestamps[stream], lateness=Lateness(self.lateness.get(stream, {}))
            )
            for stream, watermark in self.injector_watermarks.items()
        }

    def watermarks_of(self, computation: str) -> dict[int, int]:
        """Interval -> its low watermark by the authority, microseconds UTC. Raises KeyError for an unknown name."""
        values = decoded(self.output_watermarks[computation]).tolist()
        levels = {name: level for level, names in enumerate(self.topology.levels, 1) for name in names}
        numbers = [interval.number for interval in self.intervals[levels[computation]]]
        return dict(zip(numbers, values, strict=True))


def oldest_by_consumer(pending: Iterable[PendingProduction]) -> dict[str, int]:
    """Computation -> least timestamp of its pending productions, microseconds UTC.

    Rows that a sink has not acknowledged are left out: they hold no watermark.
    """
    oldest: dict[str, int] = {}
    for production in pending:
        if production.level != SINK_LEVEL:
            consumer = production.consumer
            oldest[consumer] = min(production.oldest, oldest.get(consumer, production.oldest))
    return oldest


class Encoded(NamedTuple):
    """An encoded manifest."""

    entry: bytes
    blobs: bytes | None
    """Contents of the bulk object; None if there is none."""


def encode_manifest(manifest: Manifest, blobs_path: str) -> Encoded:
    """Encode a commit. If the result has `blobs`, they must be written to `blobs_path` before the entry."""
    blobs = [
        *manifest.positions.values(),
        *(holder.key for holder in manifest.holders.values()),
        *(production.data for production in manifest.pending),
        *(receipt for receipts in manifest.receipts.values() for receipt in receipts),
        *filter(None, [manifest.metrics]),
        *manifest.output_watermarks.values(),
    ]
    has_bulk = sum(map(len, blobs)) > _INLINE_BYTES
    head = json.dumps(_head(manifest) | {"blobs": blobs_path if has_bulk else None}).encode()
    chains = json.dumps(list(map(chain_row, manifest.chains.values()))).encode()
    carried = carried_part(file.contents for file in manifest.deltas.values() if file and file.contents)
    parts = [head, manifest.topology.encode(), chains, encode_archive(manifest.archive), carried]
    entry = envelope.wrap(KIND, FORMAT_VERSION, parts if has_bulk else parts + blobs)
    return Encoded(entry, envelope.wrap(BLOBS_KIND, FORMAT_VERSION, blobs) if has_bulk else None)


def decode_manifest(parts: list[memoryview], blobs: list[memoryview] | None = None) -> Manifest:
    """Decode the unwrapped parts of a log entry, and those of its bulk object if there is one."""
    content = json.loads(bytes(parts[0]))
    plain: dict[str, Any] = {name: content[name] for name in _PLAIN}
    plain |= {name: _by_interval(content[name]) for name in _BY_INTERVAL}
    data = iter(map(bytes, parts[PART + 1 :] if blobs is None else blobs))
    carried = iter(map(bytes, carried_files(parts, "the commit")))
    positions = {stream: next(data) for stream in content["positions"]}
    holders = {name: Holder(timestamp, next(data), tag) for name, timestamp, tag in content["holders"]}
    pending = tuple(PendingProduction(a, b, c, d, next(data)) for a, b, c, d in content["pending"])
    receipts = {sink: tuple(next(data) for _ in range(count)) for sink, count in content["receipts"]}
    metrics = next(data) if content["metrics"] else b""
    return Manifest(
        **plain,
        # Release 0.1.0 did not store it.
        skew_limit=content.get("skew_limit"),
        intervals={level: IntervalMap(tuple(map(_interval, rows))) for level, rows in content["intervals"]},
        ended=frozenset(content["ended"]),
        deltas={
            (level, i): file and DeltaFile(*file)._replace(contents=next(carried) if is_carried else b"")
            for level, i, file, is_carried in content["deltas"]
        },
        positions=positions,
        holders=holders,
        pending=pending,
        receipts=receipts,
        metrics=metrics,
        output_watermarks={name: next(data) for name in content["output_watermarks"]},
        topology=Fingerprint.decode(bytes(parts[1])),
        archive=decode_archive(bytes(parts[3])),
        left={level: frozenset(names) for level, names in content["left"]},
        chains={(chain.level, chain.interval): chain for chain in map(chain_of_row, json.loads(bytes(parts[2])))},
    )


def blobs_of(parts: list[memoryview]) -> str | None:
    """Name of the bulk object of a log entry; None if there is none."""
    path: str | None = json.loads(bytes(parts[0]))["blobs"]
    return path


_PLAIN = (
    *("epoch", "wall_clock", "injector_watermarks", "greatest_timestamps", "input_watermarks", "counters"),
    *("finished", "generation", "owner", "previous"),
)
"""Fields that are the same after encoding as JSON and decoding."""
_BY_INTERVAL = ("holds", "wall_timers", "lateness")


def _head(manifest: Manifest) -> dict[str, object]:
    return {
        **{name: getattr(manifest, name) for name in (*_PLAIN, *_BY_INTERVAL)},
        "skew_limit": manifest.skew_limit,
        "intervals": [(level, level_map.intervals) for level, level_map in manifest.intervals.items()],
        "ended": sorted(manifest.ended),
        "deltas": [
            (*place, file and file[:3], bool(file and file.contents)) for place, file in manifest.deltas.items()
        ],
        "positions": list(manifest.positions),
        "holders": [(name, holder.timestamp, holder.tag) for name, holder in manifest.holders.items()],
        "pending": [production[:-1] for production in manifest.pending],
        "metrics": bool(manifest.metrics),
        "output_watermarks": list(manifest.output_watermarks),
        "left": [(level, sorted(names)) for level, names in manifest.left.items()],
        "receipts": [(sink, len(receipts)) for sink, receipts in manifest.receipts.items()],
    }


def _by_interval(content: dict[str, dict[str, int]]) -> dict[str, dict[int, int]]:
    return {name: {int(interval): value for interval, value in values.items()} for name, values in content.items()}


def _interval(row: list[Any]) -> Interval:
    number, start, stop, owner, sequencer = row
    return Interval(number, start, stop, owner, Sequencer(*sequencer))


LevelInterval = tuple[int, int]
"""Level and number of an interval."""
Chains = Mapping[LevelInterval, FileChain]


def advanced(
    before: Manifest | None, manifest: Manifest, snapshots: Iterable[SnapshotParts], place: int
) -> dict[LevelInterval, FileChain]:
    """The file chains of a commit at a place of the log: those before it, with new snapshots and the commit's deltas.

    Snapshots of intervals that no longer exist are ignored. Raises ValueError if state would be lost.
    """
    chains = rearranged({} if before is None else before.chains, manifest.intervals)
    for snapshot in snapshots:
        key = (snapshot.order.level, snapshot.order.interval)
        if key in chains:
            chains[key] = chains[key].on(snapshot)
    for key, file in manifest.deltas.items():
        if key not in chains:
            raise ValueError(f"level {key[0]} has no interval {key[1]} in epoch {manifest.epoch}'s interval map")
        if file is not None:
            chains[key] = chains[key].with_delta(file, place)
    lost = () if before is None else before.intervals.keys() - manifest.intervals.keys()
    if lost:
        raise ValueError(f"level {min(lost)} is not in epoch {manifest.epoch}'s interval map, but has state")
    return chains


def rearranged(chains: Chains, intervals: Mapping[int, IntervalMap]) -> dict[LevelInterval, FileChain]:
    """The file chains of other (or the same) intervals; the origins of a new interval are the chains that overlap it.

    Raises ValueError for an interval with new bounds that has the number of an old one.
    """
    return {
        (level, interval.number): _chain_of(chains, level, interval)
        for level, level_intervals in intervals.items()
        for interval in level_intervals
    }


def _chain_of(chains: Chains, level: int, interval: Interval) -> FileChain:
    old = chains.get((level, interval.number))
    if old is not None and (old.start, old.stop) == (interval.start, interval.stop):
        return old
    if old is not None:
        raise ValueError(f"interval {interval.number} of level {level} has new bounds; give it a number of its own")
    origins = [
        Origin(chain)
        for chain in chains.values()
        if chain.level == level and chain.last and chain.start < interval.stop and interval.start < chain.stop
    ]
    return FileChain.of(level, interval, origins)
