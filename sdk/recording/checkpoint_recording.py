"""The recording in the checkpoint of a run, so that it outlives drivers (MillWheel paper §6.2), and what else is there.

After each committed epoch the driver adds a small object, and every `JOIN_AT` epochs it joins all of them into one.
The name of an object states its epochs. An epoch is committed once, so two drivers that write the same epoch write the
same contents. Objects are JSON, so reading them runs no code. For steps that were not recorded, there is what the
checkpoint knows of them; the state of user code is not decoded (`CheckpointView`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.checkpoint.log.marker import ELSEWHERE, read_marker
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.storage.places import hidden
from headrace.lowlevel.storage.signed_store import checkpoint_store
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.options.pipeline_options import PipelineOptions, checkpoint_of
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.recorded_step import LIMIT
from headrace.sdk.recording.recording import Recording, RecordingError, StepRecording, WatermarkStep
from headrace.sdk.recording.state_snapshot import (
    OpenWindow,
    StateSnapshot,
    WaitingTimer,
    has_windows,
    window_or_timer,
)

KIND: Final = "recording"
FORMAT_VERSION: Final = 1
"""Version of the objects; it changes when their contents change."""
JOIN_AT: Final = 64
"""Number of objects after which they are joined."""
_TRIES: Final = 5

Epochs = tuple[int, int]
"""First and last epoch of an object."""


def log_of(options: PipelineOptions) -> RecordLog | None:
    """The log in the checkpoint of a run; None if it has no checkpoint, or one in memory."""
    location = checkpoint_of(options)
    return None if location is None or location.startswith("memory:") else RecordLog(checkpoint_store(location))


class RecordLog:
    """The recording in one checkpoint.

    >>> from headrace.sdk.recording.recording import Arrival, StepRecording
    >>> from headrace.lowlevel.storage.object_store import ObjectStore
    >>> log = RecordLog(ObjectStore("memory://"))
    >>> for epoch in (1, 2):
    ...     seen = StepRecording("Sum", (Arrival(epoch, epoch, "a", epoch),), epochs=((epoch, epoch),))
    ...     log.add((epoch, epoch), Recording((seen,)))
    >>> step = log.read().step()
    >>> step.epochs, [arrival.value for arrival in step.arrivals]
    (((1, 2),), [1, 2])
    """

    def __init__(self, store: ObjectStorage) -> None:
        self.store = store
        """The store of the checkpoint."""

    def add(self, epochs: Epochs, recording: Recording) -> None:
        """Write the recording of some epochs, unless it exists. Raises `StoreError`."""
        data = envelope.wrap(KIND, FORMAT_VERSION, [recording.to_json().encode()])
        self.store.put_if_absent(object_names.recording(*epochs), data)

    def read(self) -> Recording:
        """The whole recording; empty if nothing was recorded. Raises `CheckpointError` naming a damaged object."""
        for _ in range(_TRIES):
            if (found := self._try_to_read()) is not None:
                return found
        raise CheckpointError(
            f"the recording in {self.store.describe()} changes faster than it can be read; read it again later"
        )

    def _try_to_read(self) -> Recording | None:
        """The recording; None if objects were joined while they were read."""
        whole = Recording()
        for epochs in self.objects():
            name = object_names.recording(*epochs)
            if (data := self.store.get(name)) is None:
                return None
            (text,) = envelope.unwrap(KIND, FORMAT_VERSION, data, f"{name} in {self.store.describe()}")
            with envelope.understood(f"{name} in {self.store.describe()}"):
                whole = whole.followed_by(Recording.of_json(bytes(text), name))
        return whole

    def objects(self) -> list[Epochs]:
        """The epochs of every current object, in order, without those that a joined object contains."""
        names = filter(None, map(object_names.recorded_epochs, self.store.list(object_names.RECORDINGS)))
        found: list[Epochs] = []
        for first, last in sorted(names, key=lambda epochs: (epochs[0], -epochs[1])):
            if not found or last > found[-1][1]:
                found.append((first, last))
        return found

    def join(self) -> None:
        """Join all objects into one, and delete the others. Raises `StoreError`, `CheckpointError`."""
        objects = self.objects()
        if len(objects) < 2:
            return
        whole = objects[0][0], objects[-1][1]
        self.add(whole, self.read())
        for path in self.store.list(object_names.RECORDINGS):
            epochs = object_names.recorded_epochs(path)
            if epochs is not None and epochs != whole and whole[0] <= epochs[0] and epochs[1] <= whole[1]:
                self.store.delete(path)


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
