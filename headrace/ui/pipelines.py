"""The pipelines of a page: one that runs in this process, or one that is read from its checkpoint.

What can be said of a pipeline's driver follows from its last commit, the time, and the process that its lease names.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from headrace.lowlevel import Topology
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint
from headrace.lowlevel.storage.places import hidden
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.runners.engine.activity import Activity, Doing, RunPhase
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import LONG_SECONDS, hot_key, long_phase, slow_sink
from headrace.ui.checkpoint_reader import SHARE_OF_OWN, SHARE_OF_RUN, UNREADABLE, CheckpointReader
from headrace.ui.course import Course, sample_of_commit, sample_of_progress
from headrace.ui.graph import Graph, graph_of
from headrace.ui.snapshot import Phase, PipelineSnapshot, Status

_UNSEEN = 5_000_000
"""Microseconds between two commits that are seen, from which on those between them are looked for in the log."""
_STARTING = "The run starts, on Spark within a minute. The first epoch appears here when it is committed."
_ALIVE = (Phase.RUNNING, Phase.WAITING, Phase.BUSY)
_CONTINUED = "The run starts. Until its first epoch is committed, this is the last commit before it."


class NothingStoredError(LookupError):
    """What was asked for is not there. The message says what to do."""


def _commit_time(progress: EpochProgress) -> float:
    """When an epoch was committed, seconds since 1970: its clock is read when it begins."""
    return progress.clock / 1e6 + progress.seconds


class StoredPipeline:
    """A pipeline that is read from its checkpoint, whether it runs somewhere, has ended or was killed.

    Args:
        place: Directory or URL of the checkpoint.
        now: Gives the time, seconds since 1970.
        title: What the pipeline is called; by default after the place.
        key: The secret that the checkpoint is signed with; None for that of the environment.
        is_resumed: Whether this process is about to continue it: no other one runs it, and reading may cost little.
    """

    def __init__(
        self,
        place: str,
        now: Callable[[], float] = time.time,
        title: str | None = None,
        key: str | None = None,
        is_resumed: bool = False,
    ) -> None:
        self.reader: CheckpointReader | None = CheckpointReader(
            place, key, SHARE_OF_RUN if is_resumed else SHARE_OF_OWN
        )
        self._is_resumed = is_resumed
        self._reader = self.reader
        self._now = now
        self._course, self._identity = Course(), ""
        self._lock = Lock()
        self.title = titles_of([place])[0] if title is None else title

    def snapshot(self) -> PipelineSnapshot:
        """What the page shows now."""
        with self._lock:
            if self._reader.look():
                self._note()
            return self._current_snapshot()

    def _note(self) -> None:
        view, commit = self._reader.view, self._reader.commit
        if view is None or commit is None:
            return
        if self._identity != view.identity:
            # A new checkpoint at the same place has a course of its own.
            self._course, self._identity = Course(), view.identity
        last = self._course.last
        if last is None or commit.wall_clock - last.clock > _UNSEEN:
            # The oldest entries may be deleted while they are read; the newest is read already.
            with suppress(*UNREADABLE):
                for earlier in view.commits():
                    self._course.note(sample_of_commit(earlier))
        if last is None or last.epoch != commit.epoch:
            self._course.note(sample_of_commit(commit))

    def _current_snapshot(self) -> PipelineSnapshot:
        reader, course = self._reader, self._course
        if reader.problem:
            status = Status(Phase.UNREADABLE, f"The checkpoint cannot be read: {reader.problem}")
        else:
            status = self._status()
        if course.last is None:
            return PipelineSnapshot(self.title, hidden(reader.place), False, status, problem=reader.problem)
        is_running = status.phase is Phase.RUNNING and not self._is_resumed
        return _snapshot_of(self.title, reader, False, status, course, is_running)

    def _status(self) -> Status:
        view, commit = self._reader.view, self._reader.commit
        lease = None if view is None else view.lease
        alive = None if lease is None else is_alive(lease.owner)
        taken = None if lease is None else lease.taken / 1e6
        if commit is None:
            return status_of(None, self._now(), False, alive, taken)
        return status_of(commit.wall_clock / 1e6, self._now(), commit.finished, alive, taken)

    def graph(self) -> Graph:
        """The graph of the last commit. Raises `NothingStoredError` before the first one."""
        if (commit := self._reader.commit) is None:
            raise NothingStoredError("Nothing is committed yet, so there is no graph to draw.")
        return graph_of(commit.topology)


def titles_of(places: Sequence[str]) -> list[str]:
    """Short names of checkpoints: the end of each place, with as many of its folders as tell it from the others.

    >>> titles_of(["/data/scores/state/", "s3://bucket/teams/state", "/data/other"])
    ['scores/state', 'teams/state', 'other']
    """
    parts = [[part for part in hidden(place).split("/") if part] or [place] for place in places]
    titles = []
    for its in parts:
        lengths = (
            length for length in range(1, len(its)) if sum(each[-length:] == its[-length:] for each in parts) < 2
        )
        titles.append("/".join(its[-next(lengths, len(its)) :]))
    return titles


class RunningPipeline:
    """The pipeline that this process runs: its progress, and the details that only its checkpoint has.

    Args:
        title: Name of the pipeline.
        checkpoint: Directory or URL of its checkpoint; None if it has none.
        key: The secret that the checkpoint is signed with; None for that of the environment.
        topology: Makes the topology, for the graph of a run without a checkpoint.
    """

    def __init__(
        self,
        title: str,
        checkpoint: str | None = None,
        key: str | None = None,
        topology: Callable[[], Topology] | None = None,
    ) -> None:
        self.title = title
        self.reader = None if checkpoint is None else CheckpointReader(checkpoint, key, SHARE_OF_RUN)
        self._before = None if checkpoint is None else StoredPipeline(checkpoint, key=key, is_resumed=True)
        self._topology = topology
        self._course = Course()
        self._last: EpochProgress | None = None
        self._activity: Activity | None = None
        self._sampled = float("-inf")
        self._status = Status(Phase.EMPTY, NO_EPOCH)
        self._has_ended = self._was_read_at_end = False
        self._lock = Lock()

    def begin(self, activity: Activity) -> None:
        """Take what the run does."""
        self._activity = activity

    def note(self, progress: EpochProgress) -> None:
        """Take the progress after an epoch: keep it, and once a second the numbers for the charts."""
        self._last = progress
        now = time.monotonic()
        if now - self._sampled >= 1.0:
            self._sampled = now
            self._course.note(sample_of_progress(progress))

    def end(self, error: BaseException | None) -> None:
        """The run has ended, with an error or by itself."""
        last = self._last
        is_complete = last is None or last.watermark == MAX_TIMESTAMP
        self._status = status_of_end(error, is_complete, None if last is None else _commit_time(last))
        self._has_ended = True

    def snapshot(self) -> PipelineSnapshot:
        """What the page shows now."""
        with self._lock:
            reader = self.reader
            if reader is not None and self._last is not None:
                # The pace is for a run that goes on.
                is_last = self._has_ended and not self._was_read_at_end
                reader.look(at_once=is_last)
                self._was_read_at_end |= is_last
            if (last := self._last) is not None:
                self._course.note(sample_of_progress(last))
            return self._current_snapshot()

    def _current_snapshot(self) -> PipelineSnapshot:
        reader, course, last = self.reader, self._course, self._last
        if last is None:
            return self._snapshot_at_start("" if reader is None else hidden(reader.place))
        status = self._status
        if status.phase is Phase.EMPTY:
            doing = None if self._activity is None else self._activity.doing()
            status = status_of_run(_commit_time(last), time.time(), doing)
        notices = [line for line in (slow_sink(last), hot_key(last)) if line]
        return _snapshot_of(self.title, reader, True, status, course, status.phase in _ALIVE, notices)

    def _snapshot_at_start(self, place: str) -> PipelineSnapshot:
        """What the page shows before the first epoch: the last commit of the run that this one continues."""
        status, before = self._status, PipelineSnapshot(self.title, place, True, self._status)
        if self._before is not None:
            before = self._before.snapshot()
        if status.phase is Phase.EMPTY:
            sentence = _STARTING if before.epoch is None else _CONTINUED
            if long := long_phase(self._activity):
                sentence = f"{sentence} {sentence_of(long)}"
            status = Status(Phase.STARTING, sentence, before.status.committed)
        return replace(before, title=self.title, live=True, status=status)

    def graph(self) -> Graph:
        """The graph of the topology. Raises `NothingStoredError` if neither a topology nor a commit is known."""
        if self.reader is not None and (commit := self.reader.commit) is not None:
            return graph_of(commit.topology)
        if self._topology is not None:
            try:
                return graph_of(Fingerprint.of(self._topology()))
            except Exception as error:
                raise NothingStoredError(f"The graph cannot be made: {error}") from error
        raise NothingStoredError("The graph is drawn from the checkpoint: run the pipeline with --checkpoint=PLACE.")


Pipeline = StoredPipeline | RunningPipeline


def _snapshot_of(
    title: str,
    reader: CheckpointReader | None,
    live: bool,
    status: Status,
    course: Course,
    is_running: bool,
    notices: Sequence[str] = (),
) -> PipelineSnapshot:
    """The snapshot of a pipeline with a course; `live` says whether the run itself serves the page."""
    facts = None if reader is None else reader.facts
    last = course.last
    assert last is not None, "something is committed"
    return PipelineSnapshot(
        *(title, "" if reader is None else hidden(reader.place), live, status, last.epoch),
        course.totals(is_running, None if live or facts is None else facts.bytes),
        course.steps(is_running),
        course.history(),
        course.epochs(),
        facts,
        "" if reader is None else reader.problem,
        notices,
    )


_LONGEST = 300
"""Characters of a line of an error's message, at most."""
QUIET_SECONDS = 30.0
"""Seconds without a commit after which a driver is said to wait, or to be silent."""

FINISHED = "The input has ended, and nothing is left to do."
NOT_BEGUN = "Nothing is committed yet. The first epoch appears here when it is."
NO_EPOCH = "This run has committed no epoch yet. The first one appears here when it is."
_RUNNING = "Epochs are being committed."
_DEAD = "The driver has ended before its input has; the same command goes on from the last commit."
_STOPPED = "The run was stopped before its input has ended. With a checkpoint, the same command goes on from there."
_WAITING = (
    "The driver lives. It waits for input or for a timer, or its epoch takes long: the page, terminal and metrics of "
    "the run itself say which."
)
_SILENT = "Nothing is committed. The driver waits for input, or it has ended: look for it where it was started."


def status_of(
    committed: float | None, now: float, finished: bool, alive: bool | None, taken: float | None = None
) -> Status:
    """The status of a pipeline, read from its checkpoint. Times are seconds since 1970.

    Args:
        committed: The time of the last commit; None before the first one.
        now: The time.
        finished: Whether the input has ended and nothing is left to do.
        alive: Whether the driver's process is there; None if that is not known.
        taken: When the driver took its lease; None if that is not known.

    >>> status_of(100.0, 700.0, False, False).sentence
    'The driver has ended before its input has; the same command goes on from the last commit.'
    """
    if finished:
        return Status(Phase.FINISHED, FINISHED, committed)
    if committed is None:
        return _status_before_first_commit(alive)
    if alive is False:
        return Status(Phase.DEAD, _DEAD, committed)
    if now - max(committed, taken or 0.0) < QUIET_SECONDS:
        return Status(Phase.RUNNING, _RUNNING, committed)
    return Status(Phase.WAITING, _WAITING, committed) if alive else Status(Phase.SILENT, _SILENT, committed)


def status_of_run(committed: float, now: float, doing: Doing | None) -> Status:
    """The status of a run in this process.

    Args:
        committed: The time of its last commit, seconds since 1970.
        now: The time.
        doing: What it does; None if it does not tell.

    >>> status_of_run(100.0, 160.0, Doing(RunPhase.TASKS, "Enrich", 60.0, 8, 60.0)).sentence
    "Epoch 8 has been in phase tasks, step 'Enrich', for 60 s."
    """
    if doing is None:
        return status_of(committed, now, False, True)
    if doing.phase is RunPhase.WAIT:
        phase = Phase.RUNNING if now - committed < QUIET_SECONDS else Phase.WAITING
        return Status(phase, _RUNNING if phase is Phase.RUNNING else sentence_of(doing.sentence), committed)
    if max(doing.seconds, doing.epoch_seconds or 0.0) < LONG_SECONDS:
        return Status(Phase.RUNNING, _RUNNING, committed)
    return Status(Phase.BUSY, sentence_of(doing.sentence), committed)


def sentence_of(text: str) -> str:
    """A text as a sentence.

    >>> sentence_of("epoch 8 runs")
    'Epoch 8 runs.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def status_of_end(error: BaseException | None, is_complete: bool, committed: float | None = None) -> Status:
    """The status of a run that has ended here.

    Args:
        error: What the run ended with; None if it ended by itself, or was told to.
        is_complete: Whether its input had ended.
        committed: The time of its last commit, seconds since 1970; None if it had none.

    >>> status_of_end(ValueError("no score"), False).sentence
    'The run has failed with ValueError: no score'
    """
    if isinstance(error, Exception):
        # What is between the first line and the last is a traceback.
        first, *rest = hidden(str(error)).splitlines() or [""]
        told = "\n".join(line[:_LONGEST] for line in (f": {first}" if first else "", *rest[-1:]))
        return Status(Phase.FAILED, f"The run has failed with {type(error).__name__}{told}", committed)
    is_finished = error is None and is_complete
    return Status(Phase.FINISHED if is_finished else Phase.DEAD, FINISHED if is_finished else _STOPPED, committed)


def _status_before_first_commit(alive: bool | None) -> Status:
    if alive is False:
        return Status(Phase.DEAD, "The driver has ended before its first commit; the same command begins anew.")
    return Status(Phase.EMPTY, NOT_BEGUN)


_OWNER = re.compile(r" on (?P<host>\S+), process (?P<process>\d{1,10})$")


def is_alive(owner: str, host: str | None = None) -> bool | None:
    """Whether the process that a lease names is there; None if it is on another machine, or none is named.

    Windows does not say, so it is None there, too.

    The number of a process that has ended may be that of another one, so True means "perhaps".

    >>> is_alive(f"local runner on {socket.gethostname()}, process {os.getpid()}")
    True
    >>> is_alive("SparkRunner on elsewhere.example, process 1") is None, is_alive("test") is None
    (True, True)
    """
    found = _OWNER.search(owner)
    if found is None or found["host"] != (socket.gethostname() if host is None else host):
        return None
    if not hasattr(signal, "SIGKILL"):
        # On Windows 0 is the number of Ctrl-C, which would be sent.
        return None
    try:
        os.kill(int(found["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
