"""The facts that only a checkpoint tells: holders of watermarks, key intervals, positions, records on their way.

What the input watermark of a computation waits for is told as far as a commit knows it without the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from headrace.lowlevel import CheckpointView
from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.inspection.values import StoredFile
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, INJECTOR, Member
from headrace.lowlevel.checkpoint.manifest.manifest import oldest_by_consumer
from headrace.lowlevel.intervals.interval_map import SPACE
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.reporting.figures import shown_time
from headrace.sdk.model.short_text import cut_text, text_of
from headrace.sdk.recording.stored_cells import json_value
from headrace.ui.checkpoint_report import purpose_of_hold
from headrace.ui.snapshot import (
    ChartedTime,
    IntervalRow,
    LevelRow,
    PendingRow,
    SourceRow,
    StoredFacts,
    WatermarkRow,
)

_HOT = 3.0
"""Times the average of a level's intervals from which on an interval is called hot."""
_MOST = 0.8
"""Share of a level's bytes from which on an interval is called hot, if the level has few."""
_LONGEST = 200


def stored_facts(view: CheckpointView) -> StoredFacts | None:
    """The facts of the view's commit; None before the first commit. Only the commit is read, no file of state."""
    if (commit := view.manifest) is None:
        return None
    files = view.files()
    return StoredFacts(
        commit.epoch,
        "" if view.lease is None else str(view.lease),
        hashlib.sha256(commit.topology.encode()).hexdigest()[:16],
        _watermarks(view, commit),
        _levels(commit, files),
        [
            SourceRow(
                each.stream,
                shown_time(each.watermark),
                shown_time(each.greatest),
                each.ended,
                cut_text(str(json_value(each.position)), _LONGEST),
            )
            for each in view.injectors()
        ],
        [PendingRow(each.consumer, each.records, shown_time(each.oldest)) for each in view.pending()],
        len(files),
        sum(file.size for file in files),
    )


def _watermarks(view: CheckpointView, commit: Manifest) -> list[WatermarkRow]:
    holders = {hold.computation: hold for hold in view.holders()}

    def holder_of(step: str) -> str:
        if (hold := holders.get(step)) is None:
            return ""
        purpose = purpose_of_hold(view, hold) or "a hold"
        return f"key {text_of(hold.key)}, {purpose}, at {shown_time(hold.timestamp)}"

    causes = Causes(commit, holder_of)
    return [
        WatermarkRow(
            each.computation,
            ChartedTime.of(each.input),
            ChartedTime.of(each.output),
            holder_of(each.computation),
            causes.text(each.computation),
        )
        for each in view.watermarks()
    ]


def _levels(commit: Manifest, files: tuple[StoredFile, ...]) -> list[LevelRow]:
    sizes: dict[tuple[int, int], int] = {}
    for file in files:
        sizes[file.level, file.interval] = sizes.get((file.level, file.interval), 0) + file.size
    return [
        LevelRow(level, names, _intervals(commit, level, names, sizes))
        for level, names in enumerate(commit.topology.levels, 1)
        if level in commit.intervals
    ]


def _is_hot(its: int, average: float, count: int) -> bool:
    """Whether an interval has far more than the others of its level, or nearly everything where they are few."""
    return count > 1 and average > 0 and its > min(_HOT, _MOST * count) * average


def _intervals(
    commit: Manifest, level: int, names: tuple[str, ...], sizes: Mapping[tuple[int, int], int]
) -> list[IntervalRow]:
    changes = {place: file.size for place, file in commit.deltas.items() if file is not None}
    watermarks = [commit.watermarks_of(name) for name in names if name in commit.output_watermarks]
    intervals = list(commit.intervals[level])
    count = len(intervals)
    stored = sum(sizes.get((level, interval.number), 0) for interval in intervals) / count
    changed = sum(changes.get((level, interval.number), 0) for interval in intervals) / count
    rows = []
    for interval in intervals:
        size, change = (each.get((level, interval.number), 0) for each in (sizes, changes))
        rows.append(
            IntervalRow(
                *(interval.number, interval.start / SPACE, interval.stop / SPACE, interval.owner, size, change),
                shown_time(min((its[interval.number] for its in watermarks if interval.number in its), default=None)),
                _is_hot(change, changed, count) or _is_hot(size, stored, count),
            )
        )
    return rows


class Cause(NamedTuple):
    """Unfinished work before a computation."""

    timestamp: int
    """The watermark cannot pass it, microseconds UTC."""
    distance: int
    """Computations between the work and the step."""
    text: str


def _time_text(timestamp: int) -> str:
    return "the beginning of time" if timestamp <= MIN_TIMESTAMP else shown_time(timestamp)


class Causes:
    """Finds the causes in one commit.

    Args:
        commit: The commit.
        holder_of: Returns the holder of a computation's output watermark, as text; empty if there is none.
    """

    def __init__(self, commit: Manifest, holder_of: Callable[[str], str]) -> None:
        self._commit, self._holder_of = commit, holder_of
        self._pending = oldest_by_consumer(commit.pending)
        self._makers = commit.topology.makers()

    def text(self, step: str) -> str:
        """The oldest cause of a computation's input watermark, of equally old ones the nearest; empty for none."""
        causes = [cause for cause in self._causes_before(step) if cause.timestamp < MAX_TIMESTAMP]
        if not causes:
            return ""
        cause = min(causes)
        if cause.timestamp > self._commit.input_watermarks.get(step, MIN_TIMESTAMP):
            return f"nothing: it moves with the next epoch, to {cause.text}"
        return cause.text

    def _causes_before(self, step: str) -> Iterator[Cause]:
        members = self._commit.topology.of_kind(COMPUTATION)
        waiting, seen = [(step, 0)], {step}
        for name, distance in waiting:
            if name in self._pending:
                oldest = self._pending[name]
                yield Cause(oldest, distance, f"records on their way to {name}, the oldest of {_time_text(oldest)}")
            for maker in self._upstream(members[name]) if name in members else ():
                if maker.kind == INJECTOR:
                    watermark = self._commit.injector_watermarks.get(maker.name, MIN_TIMESTAMP)
                    yield Cause(watermark, distance, f"source {maker.name}, which is at {_time_text(watermark)}")
                    continue
                if (holder := self._commit.holders.get(maker.name)) is not None:
                    text = f"step {maker.name}: {self._holder_of(maker.name)}"
                    yield Cause(holder.timestamp, distance, text)
                if maker.name not in seen:
                    seen.add(maker.name)
                    waiting.append((maker.name, distance + 1))

    def _upstream(self, member: Member) -> list[Member]:
        """The injectors and computations whose records come to a member, through inline computations."""
        found: dict[str, Member] = {}
        streams = list(member.inputs)
        seen = set(streams)
        for stream in streams:
            for maker in self._makers.get(stream, ()):
                if maker.kind in (INJECTOR, COMPUTATION):
                    found[maker.name] = maker
                else:
                    streams += [each for each in maker.inputs if each not in seen]
                    seen.update(maker.inputs)
        return list(found.values())
