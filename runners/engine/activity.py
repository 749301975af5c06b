"""What a run does at this moment: the driver notes it, and reporters read it from their own threads at any time.

Progress tells of epochs that are over. An epoch that hangs tells nothing, so this is the only place that knows of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from headrace.runners.engine.options import EpochProgress


class RunPhase(StrEnum):
    """What the driver does."""

    START = "start"
    """It recovers, and begins its sinks."""
    PLAN = "plan"
    """It asks a source what to read."""
    TASKS = "tasks"
    """The tasks of an epoch run: all user code."""
    COMMIT = "commit"
    """It writes the commit of the epoch."""
    DELIVER = "deliver"
    """It hands the rows of the committed epoch to a sink."""
    TIDY = "tidy"
    """It reports the epoch, and deletes files that nobody needs any more."""
    WAIT = "wait"
    """Nothing is to be done: it waits for input, or for a timer."""


class _Moment(NamedTuple):
    phase: RunPhase
    step: str
    since: float
    epoch: int
    epoch_since: float | None


@dataclass(frozen=True, slots=True)
class Doing:
    """What a run does, and for how long already.

    >>> Doing(RunPhase.DELIVER, "Out", 42.0, 7, 45.0).sentence
    "epoch 7 has been in phase deliver, sink 'Out', for 42 s"
    """

    phase: RunPhase
    step: str
    """The source, step or sink whose code runs; empty if it is not known, or none does."""
    seconds: float
    """For how long it has been in this phase; in phase `deliver`, for how long this sink has been at it."""
    epoch: int
    """The running epoch; the next one between two epochs."""
    epoch_seconds: float | None
    """How long the epoch has been running; None between two epochs."""

    @property
    def sentence(self) -> str:
        """The phase in words, without a period."""
        time = _seconds(self.seconds)
        match self.phase:
            case RunPhase.START:
                sink = f", in {self._named('sink')}" if self.step else ""
                return f"the run has been starting for {time}{sink}"
            case RunPhase.WAIT:
                return f"the run has waited for input or for a timer for {time}"
            case RunPhase.PLAN:
                return f"{self._named('source')} has been asked for input for {time}"
            case RunPhase.TASKS:
                step = f", {self._named('step')}" if self.step else ""
            case RunPhase.DELIVER:
                step = f", {self._named('sink')}" if self.step else ""
            case _:
                step = ""
        return f"epoch {self.epoch:,} has been in phase {self.phase}{step}, for {time}"

    def _named(self, kind: str) -> str:
        return f"{kind} {self.step!r}" if self.step else f"a {kind}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


class Activity:
    """What one run does; its driver writes it, any thread may read it.

    >>> activity = Activity(generation=3, clock=iter([0.0, 5.0, 65.0]).__next__)
    >>> activity.begin_epoch(7)
    >>> activity.doing().sentence
    'epoch 7 has been in phase tasks, for 60 s'
    """

    def __init__(
        self, generation: int, steps: Collection[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.generation = generation
        """How many drivers the checkpoint has had, this one included; 1 without a checkpoint."""
        self.steps = tuple(steps)
        """Names of the computations, which may count records from now on."""
        self.recovered: EpochProgress | None = None
        """The figures of the commit that the run goes on from; None before the driver has read it, or without one."""
        self.running_step: Callable[[], str] = str
        """Returns the step whose code runs in a task now; empty if that is not known. Called by readers only."""
        self._clock = clock
        self._moment = _Moment(RunPhase.START, "", clock(), 0, None)
        self._idle_since: float | None = None

    def begin_epoch(self, epoch: int) -> None:
        """The tasks of an epoch begin."""
        now = self._clock()
        self._idle_since = None
        self._moment = _Moment(RunPhase.TASKS, "", now, epoch, now)

    def begin(self, phase: RunPhase, step: str = "") -> None:
        """A phase begins, or the part of a source or sink in it."""
        self._moment = self._moment._replace(phase=phase, step=step, since=self._clock())

    def end_epoch(self) -> None:
        """The epoch is delivered and reported; the next one is planned."""
        self._moment = _Moment(RunPhase.PLAN, "", self._clock(), self._moment.epoch + 1, None)

    def wait(self) -> None:
        """There is nothing to do. Times of waiting follow each other as one, if no epoch is between them."""
        if self._idle_since is None:
            self._idle_since = self._clock()
        self._moment = self._moment._replace(phase=RunPhase.WAIT, step="", since=self._idle_since)

    def doing(self) -> Doing:
        """What the run does now."""
        moment, now = self._moment, self._clock()
        step = self.running_step() if moment.phase is RunPhase.TASKS else moment.step
        since = None if moment.epoch_since is None else now - moment.epoch_since
        return Doing(moment.phase, step, now - moment.since, moment.epoch, since)


@runtime_checkable
class ActivityReporter(Protocol):
    """A reporter that reads what the run does, also while no epoch ends; else it is called after commits only."""

    def begin(self, activity: Activity) -> None:
        """Take the activity of a run that begins, before it has recovered."""


class Following:
    """Notes what a run reports, and passes it on.

    Args:
        progress: Whom it is passed on to; None if nobody follows the run.
        note: Called with the figures of each epoch.
        begin: Called with the activity of the run.
    """

    def __init__(
        self,
        progress: Callable[[EpochProgress], None] | None,
        note: Callable[[EpochProgress], None],
        begin: Callable[[Activity], None] | None = None,
    ) -> None:
        self._progress, self._note, self._begin = progress, note, begin

    def begin(self, activity: Activity) -> None:
        """See `ActivityReporter`."""
        if self._begin is not None:
            self._begin(activity)
        following: object = self._progress
        if isinstance(following, ActivityReporter):
            following.begin(activity)

    def __call__(self, epoch: EpochProgress) -> None:
        """Note the figures of an epoch."""
        self._note(epoch)
        if self._progress is not None:
            self._progress(epoch)
