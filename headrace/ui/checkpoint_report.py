"""The contents of a checkpoint as values that JSON can represent, for `headrace inspect` and the page of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from headrace.lowlevel import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import InjectorState, StoredHold, StoredState, StoredTimer
from headrace.lowlevel.checkpoint.manifest.fingerprint import SINK
from headrace.lowlevel.checkpoint.manifest.manifest import SINK_LEVEL, Manifest
from headrace.lowlevel.metric import decode_metrics
from headrace.lowlevel.sinks.sink import TapSink
from headrace.lowlevel.stored_names import public_name
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.timer import TimeDomain
from headrace.lowlevel.watermarks.explain import date_of, skew_holder
from headrace.runners.reporting.figures import step_figures
from headrace.sdk.recording.state_snapshot import OpenWindow, has_windows, window_or_timer
from headrace.sdk.recording.stored_cells import json_value

Figures = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StateFigures:
    """The stored state of one computation."""

    step: str
    keys: int
    """Number of keys with cells."""
    cells: int
    bytes: int
    """Bytes of the cells."""
    lines: int
    """Number of lines of the segments of vectorized computations."""
    timers: int
    ids: int
    """Number of stored ids of processed records, by which duplicates are found."""


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """The contents of a checkpoint at one commit. `instant` makes its times: microseconds UTC, and a date."""

    place: str
    driver: str | None
    epoch: int | None
    committed: str | None
    finished: bool
    epochs: Sequence[int]
    """Epochs that are still in the log."""
    injectors: Sequence[Figures]
    watermarks: Sequence[Figures]
    pending: Sequence[Figures]
    timers: Sequence[Figures]
    """The timers that are due next."""
    state: Sequence[Figures]
    counters: Mapping[str, Mapping[str, int]]
    files: Figures
    recorders: Sequence[str] = ()
    """Sinks that a recording has added to the program."""


def report_of(view: CheckpointView, timers: int) -> CheckpointReport:
    """Return everything that `headrace inspect` shows, with up to `timers` timers."""
    commit, lease = view.manifest, view.lease
    files = view.files()
    return CheckpointReport(
        place=view.store.describe(),
        driver=None if lease is None else str(lease),
        epoch=None if commit is None else commit.epoch,
        committed=None if commit is None else date_of(commit.wall_clock),
        finished=commit is not None and commit.finished,
        epochs=[each.epoch for each in view.epochs()],
        injectors=[] if commit is None else _injectors(commit, view),
        watermarks=_watermarks(view),
        pending=_pending(view),
        timers=[
            {
                "step": timer.computation,
                "key": json_value(timer.key),
                "tag": timer.tag,
                "for": purpose_of(view, timer),
                "clock": timer.domain.name.lower(),
                "due": instant(timer.timestamp),
            }
            for timer in view.timers(limit=timers)
        ],
        state=[asdict(state_of(view, name)) for name in view.computations()],
        counters={} if commit is None else commit.counters,
        files={"number": len(files), "bytes": sum(file.size for file in files)},
        recorders=[] if commit is None else recorders_of(commit),
    )


def _injectors(commit: Manifest, view: CheckpointView) -> list[Figures]:
    backlogs = {figures.step: figures.backlog for figures in step_figures(decode_metrics(commit.metrics))}
    return [_injector(commit, each, backlogs.get(each.stream)) for each in view.injectors()]


def _injector(commit: Manifest, injector: InjectorState, backlog: int | None) -> Figures:
    return {
        "stream": injector.stream,
        "position": json_value(injector.position),
        "watermark": instant(injector.watermark),
        "greatest": instant(injector.greatest),
        "ended": injector.ended,
        "backlog": backlog,
        "behind_s": _behind(commit, injector),
        "waits_for": skew_holder(injector.stream, commit.injectors(), commit.skew_limit),
    }


def _behind(commit: Manifest, injector: InjectorState) -> float | None:
    """Seconds from a source's watermark to the clock of the commit; None if it has none yet, or the input has ended."""
    if injector.watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        return None
    return max(0, commit.wall_clock - injector.watermark) / 1e6


def _watermarks(view: CheckpointView) -> list[Figures]:
    holders = {hold.computation: hold for hold in view.holders()}
    found: list[Figures] = []
    for each in view.watermarks():
        hold = holders.get(each.computation)
        found.append(
            {
                "step": each.computation,
                "level": each.level,
                "input": instant(each.input),
                "output": instant(each.output),
                "held_by": None if hold is None else _hold(view, hold),
            }
        )
    return found


def _hold(view: CheckpointView, hold: StoredHold) -> Figures:
    return {
        "key": json_value(hold.key),
        "tag": hold.tag,
        "at": instant(hold.timestamp),
        "for": purpose_of_hold(view, hold),
    }


def recorders_of(commit: Manifest) -> list[str]:
    """Return the names of the sinks that a recording has added to the program."""
    sinks = commit.topology.of_kind(SINK)
    return [name for name, sink in sinks.items() if sink.class_name == public_name(TapSink)]


def purpose_of(view: CheckpointView, timer: StoredTimer) -> str:
    """Return the purpose of a timer or a hold, in words."""
    meant = window_or_timer(timer, has_windows(view, timer.computation))
    if not isinstance(meant, OpenWindow):
        return meant.tag
    return "the global window" if meant.start is None else f"window from {date_of(meant.start)}"


def purpose_of_hold(view: CheckpointView, hold: StoredHold) -> str:
    """Return the purpose of a hold, in words; empty for one without a tag."""
    return purpose_of(view, StoredTimer(hold.computation, hold.key, hold.tag, TimeDomain.LOW_WATERMARK, hold.timestamp))


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
    """Return the sizes of the stored state of a computation."""
    keys = cells = size = 0
    for state in view.states(name):
        keys += 1
        data = stored_data(state)
        cells += len(data)
        size += sum(map(len, data))
    timers = len(view.timers(name))
    return StateFigures(name, keys, cells, size, view.count_lines(name), timers, view.count_ids(name))


def stored_data(state: StoredState) -> list[bytes]:
    """Return what is stored of a key without columns: its state, if there is one, and its cells."""
    whole = [state.state] if isinstance(state.state, bytes) else []
    return [*whole, *state.cells.values()]


def instant(timestamp: int) -> object:
    """Return a time in microseconds UTC together with its date, as a dict.

    >>> instant(0)
    {'micros': 0, 'date': '1970-01-01T00:00:00Z'}
    """
    return {"micros": timestamp, "date": date_of(timestamp)}
