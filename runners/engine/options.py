"""What a run can be told, and what it tells: options, progress, result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields

from headrace.lowlevel.balance import Balancer, LoadBalancer
from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.metric import Cells
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.runners.engine.epochsize import USUAL, CheapSize, EpochSize, FixedSize, Size
from headrace.runners.engine.optionrules import check_options


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, after an epoch has been committed."""

    epoch: int
    records_in: int
    """Records read from all injectors since the pipeline first started."""
    records_out: int
    """Rows handed to sinks."""
    late: int
    """Records that were behind the low watermark when they were processed."""
    dropped: int
    """Late records that a computation dropped."""
    watermark: int
    """The least input low watermark of all computations, microseconds UTC."""
    clock: int
    """The epoch's reading of the wall clock, microseconds UTC."""
    greatest: int
    """The greatest timestamp read, microseconds UTC."""
    seconds: float
    """How long the epoch took, its commit included."""
    metrics: Cells = field(default_factory=dict)
    """Step -> metric -> value so far: those of user code, and in the namespace `headrace` what the engine measures."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the epoch's parts: `tasks` (all user code), `commit`, `deliver` (to sinks)."""

    @property
    def lag(self) -> int | None:
        """How far the low watermark is behind the greatest timestamp read, microseconds; None before the first."""
        if MIN_TIMESTAMP in (self.watermark, self.greatest):
            return None
        return max(0, self.greatest - self.watermark)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run of a topology."""

    checkpoint: str | None = field(default=None, repr=False)
    """Directory or URL of the checkpoint; None keeps the state only as long as the run."""
    checkpoint_key: str | None = field(default=None, repr=False)
    """Secret that the checkpoint is signed with, so that nothing is loaded that somebody else wrote (docs/security.md);
    None for the one in the environment variable `HEADRACE_CHECKPOINT_KEY`, or for no signature if there is none."""
    intervals: int | None = None
    """Key intervals of each computation to begin with, and tasks that work on them. None: what the checkpoint has, or
    what the runner chooses. If a checkpoint has another number, its state is divided anew."""
    balancer: Callable[[], Balancer] | None = LoadBalancer
    """Makes what splits, merges and moves intervals as their load changes (paper §7.1); None leaves them alone."""
    max_records_per_epoch: int | None = None
    """About how many records an injector may contribute to one epoch: bounds memory, and work lost in a crash. None: a
    million, or four where an epoch of them takes less than two seconds and little reaches a grouping or a sink."""
    latency_aim: float | None = None
    """Seconds from when a record is there until its result should be. Epochs are then as large as they can be in half
    of that, at least of 1,000 records and at most of `max_records_per_epoch`, a million by default. None: no aim."""
    one_task_epochs: bool = True
    """Whether Spark may run an epoch of little work as one task, without a shuffle between the levels, where that is
    quicker by what is measured; and one that is not large as one stage of tasks that each read it, where no code of the
    user's comes before the key. The local runner has one process anyway."""
    skew_limit: float | None = None
    """Seconds of event time by which an injector may run ahead of the least watermark of all: one that is further
    waits until the others have caught up, so that what it would bring need not be kept (paper §8.4). None: no limit."""
    straggler_delay: float = 1.0
    """Seconds that a task waits until a sink has acknowledged weak productions. What takes longer becomes part of the
    commit and is released again, so that nothing is lost and nobody waits (paper figure 11)."""
    cache_bytes: int = 64 << 20
    """What each worker process may keep of decoded state from epoch to epoch, in bytes (paper §8.3); 0 for nothing.
    Computations take part that declare `private_state`. The local runner keeps none."""
    poll_seconds: float = 0.1
    """How long to wait before asking idle injectors again."""
    progress: Callable[[Progress], None] | None = None
    """Called after each commit."""
    allow_removed: Collection[str] = ()
    """Names of computations, injectors (by stream) and sinks that the checkpoint has and this topology need not. What
    they have stored is archived, and restored when they come back."""
    discard_stored: Collection[str] = ()
    """Names whose stored state or position is given up if it is archived, or has no meaning for this topology."""
    drop_pending: Collection[str] = ()
    """Names of computations to which productions on their way need not be delivered."""

    def epoch_size(self) -> Size:
        """What chooses the size of epochs."""
        most = self.max_records_per_epoch
        if self.latency_aim is not None:
            return EpochSize.of(self.latency_aim, USUAL if most is None else most)
        return CheapSize() if most is None else FixedSize(most)

    @property
    def consent(self) -> Consent:
        """What the user agrees to, should this be another topology than the checkpoint's."""
        return Consent(self.allow_removed, self.discard_stored, self.drop_pending)

    def __post_init__(self) -> None:
        check_options({each.name: getattr(self, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a finished run leaves behind."""

    epochs: int
    """Epochs committed since the pipeline first started."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """Computation, injector stream or sink -> counter -> total."""
    watermarks: dict[str, int] = field(default_factory=dict)
    """Computation -> input low watermark at the end, microseconds UTC."""
    unfired_wall_timers: int = 0
    """Intervals in which wall-time timers were still waiting when the input had ended."""
    metrics: Cells = field(default_factory=dict, compare=False)
    """Step -> metric -> value: those of user code, and in the namespace `headrace` what the engine measures. Gauges
    have the time of the run, so runs are equal without it."""

    def total(self, counter: str) -> int:
        """A counter, summed over the whole topology.

        >>> RunResult(1, {"a": {"late": 2}, "b": {"late": 1}}).total("late")
        3
        """
        return sum(counters.get(counter, 0) for counters in self.counters.values())
