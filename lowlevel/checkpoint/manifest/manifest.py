"""The manifest: the contents of one epoch's commit, and its encoding as a log entry (MillWheel paper §6.2).

An entry consists of JSON, of the small delta files that it carries, and of opaque bytes (such as injector positions,
pending productions and receipts of sinks). If these bytes are many, they are in an object of their own, the bulk, which
is written first; the entry stays small.
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
from headrace.lowlevel.checkpoint.files.file_chain import FileChain, chain_of_row, chain_row
from headrace.lowlevel.checkpoint.manifest.archive import Archived, decode_archive, encode_archive
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint
from headrace.lowlevel.coders.coder import PLAIN
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.records.column_block import decode_block
from headrace.lowlevel.storage import envelope
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.watermarks.authority import Holder, decoded
from headrace.lowlevel.watermarks.explain import WatermarkState
from headrace.lowlevel.watermarks.lateness import Lateness
from headrace.lowlevel.watermarks.propagation import InjectorProgress

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
            PendingProduction(self.level, interval.number, self.consumer, block.oldest(), block.encode())
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


def watermark_state_of(manifest: Manifest) -> WatermarkState:
    """Holders, holds, pending productions and injectors of a commit, from `CheckpointView.manifest`."""
    return WatermarkState(
        watermarks=manifest.input_watermarks,
        injectors=manifest.injectors(),
        skew_limit=manifest.skew_limit,
        positions={stream: PLAIN.decode(position) for stream, position in manifest.positions.items()},
        holders=manifest.holders,
        pending=oldest_by_consumer(manifest.pending),
        holds=manifest.holds,
        intervals=manifest.intervals,
    )
