"""What a checkpoint tells, gathered as plain values that JSON can hold; `headrace inspect` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from headrace.lowlevel import CheckpointView
from headrace.lowlevel.checkpoint.fingerprint import SINK
from headrace.lowlevel.checkpoint.listing import StoredTimer
from headrace.lowlevel.checkpoint.manifest import SINK_LEVEL, Manifest
from headrace.lowlevel.explain import date_of
from headrace.lowlevel.sink import TapSink
from headrace.lowlevel.timer import TimeDomain
from headrace.sdk.standing import OpenWindow
from headrace.sdk.storedtimer import has_windows, meant_by

Figures = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StateFigures:
    """What is stored of one computation."""

    step: str
    keys: int
    """That have state behind cells."""
    cells: int
    bytes: int
    """Of the cells."""
    lines: int
    """In segments, of computations that work by columns."""
    timers: int
    ids: int
    """Of processed records, remembered to know duplicates."""


@dataclass(frozen=True, slots=True)
class Report:
    """One commit of a checkpoint. Times are microseconds UTC in `at`, dates for people in `shown`."""

    place: str
    driver: str | None
    epoch: int | None
    committed: str | None
    finished: bool
    epochs: Sequence[int]
    """That are still in the log."""
    injectors: Sequence[Figures]
    watermarks: Sequence[Figures]
    pending: Sequence[Figures]
    timers: Sequence[Figures]
    """The next so many."""
    state: Sequence[Figures]
    counters: Mapping[str, Mapping[str, int]]
    files: Figures
    recorders: Sequence[str] = ()
    """Sinks that are no part of the program: they take what a recording needs."""


def report_of(view: CheckpointView, timers: int) -> Report:
    """Everything that `headrace inspect` shows, with the next so many timers."""
    commit, lease = view.manifest, view.lease
    files = view.files()
    return Report(
        place=view.store.describe(),
        driver=None if lease is None else str(lease),
        epoch=None if commit is None else commit.epoch,
        committed=None if commit is None else date_of(commit.wall_clock),
        finished=commit is not None and commit.finished,
        epochs=[each.epoch for each in view.epochs()],
        injectors=[_injector(view, each.stream) for each in view.injectors()],
        watermarks=_watermarks(view),
        pending=_pending(view),
        timers=[
            {
                "step": timer.computation,
                "key": plain(timer.key),
                "tag": timer.tag,
                "for": _purpose(view, timer),
                "clock": timer.domain.name.lower(),
                "due": instant(timer.timestamp),
            }
            for timer in view.timers(limit=timers)
        ],
        state=[asdict(state_of(view, name)) for name in view.computations()],
        counters={} if commit is None else commit.counters,
        files={"number": len(files), "bytes": sum(file.size for file in files)},
        recorders=[] if commit is None else _recorders(commit),
    )


def _injector(view: CheckpointView, stream: str) -> Figures:
    [found] = [each for each in view.injectors() if each.stream == stream]
    return {
        "stream": stream,
        "position": plain(found.position),
        "watermark": instant(found.watermark),
        "greatest": instant(found.greatest),
        "ended": found.ended,
    }


def _watermarks(view: CheckpointView) -> list[Figures]:
    holders = {hold.computation: hold for hold in view.holders()}
    found: list[Figures] = []
    for each in view.watermarks():
        holder = holders.get(each.computation)
        held = None
        if holder is not None:
            timer = StoredTimer(holder.computation, holder.key, holder.tag, TimeDomain.LOW_WATERMARK, holder.timestamp)
            held = {"key": plain(holder.key), "tag": holder.tag, "at": instant(holder.timestamp)}
            held["for"] = _purpose(view, timer)
        found.append(
            {
                "step": each.computation,
                "level": each.level,
                "input": instant(each.input),
                "output": instant(each.output),
                "held_by": held,
            }
        )
    return found


def _recorders(commit: Manifest) -> list[str]:
    sinks = commit.topology.of_kind(SINK)
    return [name for name, sink in sinks.items() if sink.class_name == TapSink.__qualname__]


def _purpose(view: CheckpointView, timer: StoredTimer) -> str:
    """What a timer, or a hold, is for, in words."""
    meant = meant_by(timer, has_windows(view, timer.computation))
    if not isinstance(meant, OpenWindow):
        return meant.tag
    return "the global window" if meant.start is None else f"window from {date_of(meant.start)}"


def _pending(view: CheckpointView) -> list[Figures]:
    assert view.manifest is not None or not view.pending()
    levels = [] if view.manifest is None else [one.level for one in view.manifest.pending]
    return [
        {
            "to": each.consumer,
            "kind": "sink" if level == SINK_LEVEL else "computation",
            "stream": each.stream,
            "records": each.records,
            "oldest": instant(each.oldest),
            "bytes": each.size,
        }
        for level, each in zip(levels, view.pending(), strict=True)
    ]


def state_of(view: CheckpointView, name: str) -> StateFigures:
    """How much a computation has stored."""
    keys = cells = size = 0
    for state in view.states(name):
        keys += 1
        data = [state.state] if isinstance(state.state, bytes) else []
        data += state.cells.values()
        cells += len(data)
        size += sum(map(len, data))
    timers = len(view.timers(name))
    return StateFigures(name, keys, cells, size, view.count_lines(name), timers, view.count_ids(name))


def instant(timestamp: int) -> object:
    """Microseconds and a date.

    >>> instant(0)
    {'micros': 0, 'date': '1970-01-01T00:00:00Z'}
    """
    return {"micros": timestamp, "date": date_of(timestamp)}


def plain(value: object) -> object:
    """A key or position as JSON has it; what JSON has no form for as Python shows it.

    >>> plain(("a", 1, b"x"))
    ['a', 1, "b'x'"]
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return repr(value)
