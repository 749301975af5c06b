"""The recording in a checkpoint, and what a checkpoint knows of steps that were not recorded.

Reading runs no code that the checkpoint names (`CheckpointView`): the state of user code is not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.checkpoint.log.marker import ELSEWHERE, read_marker
from headrace.lowlevel.storage.places import hidden
from headrace.lowlevel.storage.signed_store import checkpoint_store
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.recorded_step import LIMIT
from headrace.sdk.recording.recording import Recording, RecordingError, StepRecording, WatermarkStep
from headrace.sdk.recording.recording_log import RecordLog
from headrace.sdk.recording.state_snapshot import (
    OpenWindow,
    StateSnapshot,
    WaitingTimer,
    has_windows,
    window_or_timer,
)


def recording_at(location: str | Path, key: str | None = None) -> Recording:
    """The recording at a location: in a file that `Recording.save` wrote, or in a checkpoint.

    Of a checkpoint it has the recorded steps, then the others with what the checkpoint knows of them (`standing`).

    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> with TemporaryDirectory() as folder:
    ...     options = PipelineOptions(checkpoint=folder, record=["Sum"])
    ...     with beam.Pipeline("LocalRunner", options) as pipeline:
    ...         _ = pipeline | beam.Create([("red", 5), ("red", 7)]) | "Sum" >> beam.CombinePerKey(sum)
    ...     recording_at(folder).step("Sum").panes[0].value
    12

    Args:
        location: The file, or directory or URL of the checkpoint.
        key: The secret that the checkpoint is signed with; None for that of the environment.

    Raises:
        RecordingError: The file is no recording, or nothing is committed in the checkpoint.
        CheckpointError: There is no such file, and no checkpoint; or it is damaged.
        OSError: It cannot be read.
    """
    if Path(location).is_file():
        return Recording.load(location)
    store = checkpoint_store(location, key)
    shown_at = hidden(str(location))
    if "://" not in str(location) and read_marker(store, ELSEWHERE) is None:
        raise RecordingError(
            f"there is neither a recording nor a checkpoint at {shown_at}; give a file that recording.save() wrote, or "
            "the directory or URL of a checkpoint"
        )
    view = CheckpointView.of(store)
    if (commit := view.manifest) is None:
        raise RecordingError(
            f"nothing is committed in the checkpoint at {shown_at} yet, so there is nothing to draw; wait for an epoch"
        )
    recorded = {step.label: replace(step, committed=commit.epoch) for step in RecordLog(store).read().steps}
    unrecorded = (_unrecorded_step(view, name, commit.epoch) for name in view.computations() if name not in recorded)
    return Recording((*recorded.values(), *unrecorded))


def _unrecorded_step(view: CheckpointView, name: str, epoch: int) -> StepRecording:
    """What a checkpoint knows of one computation that was not recorded."""
    assert view.manifest is not None, "something is committed"
    moves: list[WatermarkStep] = []
    restarts: list[int] = []
    driver = None
    for commit in view.commits():
        if driver not in (None, commit.generation):
            restarts.append(commit.wall_clock)
        driver = commit.generation
        watermark = commit.input_watermarks.get(name)
        if watermark is not None and (not moves or moves[-1].watermark != watermark):
            moves.append(WatermarkStep(commit.wall_clock, watermark))
    waiting = list(islice(_windows_and_timers(view, name), LIMIT + 1))
    pending = [records for records in view.pending() if records.consumer == name]
    standing = StateSnapshot(
        view.manifest.wall_clock,
        tuple(window for window in waiting[:LIMIT] if isinstance(window, OpenWindow)),
        tuple(timer for timer in waiting[:LIMIT] if isinstance(timer, WaitingTimer)),
        sum(records.records for records in pending),
        min((records.oldest for records in pending), default=None),
        len(waiting) > LIMIT,
    )
    return StepRecording(name, watermarks=tuple(moves), committed=epoch, restarts=tuple(restarts), standing=standing)


def _windows_and_timers(view: CheckpointView, name: str) -> Iterator[OpenWindow | WaitingTimer]:
    in_windows = has_windows(view, name)
    for timer in view.timers(name, limit=LIMIT + 1):
        yield window_or_timer(timer, in_windows)
    if in_windows:
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
        start, end, age, wake = (_whole_number(line.columns.get(column)) for column in ("start", "end", "age", "wake"))
        if end is None:
            continue
        window = OpenWindow(text_of(line.key), start, end)
        # A window is written anew when something comes for it: the line of the latest epoch says what holds.
        if ages.get(window, -1) <= (age or 0):
            ages[window], wakes[window] = age or 0, wake
        if len(wakes) > LIMIT:
            break
    return wakes


def _whole_number(value: object) -> int | None:
    return value if isinstance(value, int) else None
