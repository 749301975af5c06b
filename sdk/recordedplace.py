"""The recording that lies in a checkpoint, and what a checkpoint knows of steps that nobody recorded.

It only looks, and runs no code that the checkpoint names (`CheckpointView`): states of user code stay closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.checkpoint.fingerprint import COMPUTATION
from headrace.lowlevel.checkpoint.listing import StoredTimer
from headrace.lowlevel.checkpoint.marker import read_marker
from headrace.lowlevel.credentials import hidden
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.timer import TimeDomain
from headrace.sdk.recordedstep import LIMIT
from headrace.sdk.recordedtap import text_of
from headrace.sdk.recording import Recording, RecordingError, StepRecording, WatermarkStep
from headrace.sdk.recordlog import RecordLog, store_of
from headrace.sdk.standing import OpenWindow, Standing, WaitingTimer

_WINDOW = re.compile(r"u?(-?\d+):(-?\d+)|u?global")
"""Tags of the timers that wait for the end of a window, or its closing."""
_NAMED = re.compile(r"t(?:-?\d+:-?\d+|global|[0-9a-f]*) (\d+):(.*)", re.DOTALL)
"""Tags of the timers of a `DoFn`: window, length of the name, name and dynamic tag."""


def recording_at(place: str | Path) -> Recording:
    """What was recorded at a place: a file that `Recording.save` wrote, or a checkpoint.

    Of a checkpoint these are the recorded steps, then the others, with what is known of them (`standing`).

    Raises:
        RecordingError: The file is no recording, or nothing has happened yet.
        CheckpointError: There is no such file, and no checkpoint; or it is damaged.
        OSError: It cannot be read.
    """
    if Path(place).is_file():
        return Recording.load(place)
    store = store_of(str(place))
    shown = hidden(str(place))
    if "://" not in str(place) and read_marker(store) is None:
        raise RecordingError(
            f"there is neither a recording nor a checkpoint at {shown}; give a file that recording.save() wrote, or "
            "the directory or URL of a checkpoint"
        )
    view = CheckpointView.of(store)
    if view.manifest is None:
        raise RecordingError(
            f"nothing is committed in the checkpoint at {shown} yet, so there is nothing to draw; wait for an epoch"
        )
    epoch = view.manifest.epoch
    recorded = {step.label: replace(step, committed=epoch) for step in RecordLog(store).read().steps}
    unrecorded = (_known(view, name, epoch) for name in view.computations() if name not in recorded)
    return Recording((*recorded.values(), *unrecorded))


def _known(view: CheckpointView, name: str, epoch: int) -> StepRecording:
    """Of one computation that was not recorded."""
    assert view.manifest is not None, "something is committed"
    moves: list[WatermarkStep] = []
    for commit in view.commits():
        watermark = commit.input_watermarks.get(name)
        if watermark is not None and (not moves or moves[-1].watermark != watermark):
            moves.append(WatermarkStep(commit.wall_clock, watermark))
    found = list(islice(_waiting(view, name), LIMIT + 1))
    pending = [its for its in view.pending() if its.consumer == name]
    standing = Standing(
        view.manifest.wall_clock,
        tuple(its for its in found[:LIMIT] if isinstance(its, OpenWindow)),
        tuple(its for its in found[:LIMIT] if isinstance(its, WaitingTimer)),
        sum(its.records for its in pending),
        min((its.oldest for its in pending), default=None),
        len(found) > LIMIT,
    )
    return StepRecording(name, watermarks=tuple(moves), committed=epoch, standing=standing)


def _waiting(view: CheckpointView, name: str) -> Iterator[OpenWindow | WaitingTimer]:
    has_windows = _has_windows(view, name)
    for timer in view.timers(name, limit=LIMIT + 1):
        yield _meant(timer, has_windows)
    if has_windows:
        assert view.manifest is not None, "something is committed"
        for window, wake in _windows_in_columns(view, name).items():
            yield window
            # What was due has fired, or the watermark was there before; neither writes the window anew.
            if wake is not None and view.manifest.wall_clock < wake <= MAX_TIMESTAMP:
                yield WaitingTimer(window.key, wake, "trigger", True)


def _windows_in_columns(view: CheckpointView, name: str) -> dict[OpenWindow, int | None]:
    """Windows that lie in segments, `LIMIT` and one more at most, and the wall time that each waits for."""
    ages: dict[OpenWindow, int] = {}
    wakes: dict[OpenWindow, int | None] = {}
    for line in view.lines(name):
        start, end, age, wake = (_number(line.columns.get(column)) for column in ("start", "end", "age", "wake"))
        if end is None:
            continue
        window = OpenWindow(text_of(line.key), start, end)
        # A window is written anew when something comes for it: the line of the latest epoch says what holds.
        if ages.get(window, -1) <= (age or 0):
            ages[window], wakes[window] = age or 0, wake
        if len(wakes) > LIMIT:
            break
    return wakes


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _has_windows(view: CheckpointView, name: str) -> bool:
    """Whether it is a grouping or a `DoFn` with state, whose tags of timers say windows."""
    assert view.manifest is not None, "something is committed"
    member = view.manifest.topology.of_kind(COMPUTATION).get(name)
    return member is not None and "windows" in dict(member.signature)


def _meant(timer: StoredTimer, has_windows: bool) -> OpenWindow | WaitingTimer:
    """What a timer waits for: the end of a window, or what user code set it for.

    >>> end = StoredTimer("Sum", "red", "0:60000000", TimeDomain.LOW_WATERMARK, 60_000_000)
    >>> _meant(end, True)
    OpenWindow(key='red', start=0, end=60000000)
    >>> _meant(replace(end, tag="t0:60000000 4:idle"), True)
    WaitingTimer(key='red', timestamp=60000000, tag='idle', is_wall=False)
    """
    key, tag, is_wall = text_of(timer.key), timer.tag, timer.domain is TimeDomain.WALL_TIME
    if has_windows:
        if (window := _WINDOW.fullmatch(tag)) is not None:
            if not is_wall:
                start, end = window.groups()
                return OpenWindow(key, None if start is None else int(start), None if end is None else int(end))
            tag = "trigger"
        elif (named := _NAMED.fullmatch(tag)) is not None:
            length, names = int(named[1]), named[2]
            tag = f"{names[:length]} {names[length:]}".strip()
    return WaitingTimer(key, timer.timestamp, text_of(tag), is_wall)
