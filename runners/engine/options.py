"""The options of a run as the engine has them, its progress after each epoch, and its result.

An epoch has a fixed number of records, a number chosen for a latency aim, or a number that is cheap. With a latency
aim, a record waits for the end of the epoch before it, and then for the end of its own epoch, so an epoch may take half
of the aim. The duration of each epoch is measured and suggests a size; the suggestions are smoothed, so that one
unusual epoch has little effect. Tests choose the size by hooks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, ClassVar, Protocol

from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.intervals.balancer import Balancer, LoadBalancer
from headrace.lowlevel.metric import MetricValues
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.options.known_options import check_known
from headrace.options.option import Option, option_field
from headrace.options.pipeline_options import EngineOptions, PipelineOptions, checkpoint_of, progress_of

LEAST = 1_000
"""The least number of records of an epoch; in smaller ones, the fixed costs of an epoch would dominate."""
_FIRST = 10_000
_WEIGHT = 0.5
"""Weight of the newest epoch in the mean of the logarithms of sizes."""
_MOST_AT_ONCE = 4.0
"""Largest factor by which one epoch may suggest a larger or a smaller size."""
USUAL = 1_000_000
"""The default number of records of an epoch."""
_FIRST_OF_SUMS = 16_000_000
"""The same for the first epoch of bounded input of which tasks keep sums and the like only."""
_QUICK_SECONDS = 2.0
"""Longest time that an epoch of more than `USUAL` records should take, …"""
_WAITING_SECONDS = 15.0
"""… and the same while no watermark has moved, so that no window can end in a shorter one."""
_TIMES_USUAL = 4
_TIMES_WAITING = 64


class Size(Protocol):
    """Chooses the number of records of each epoch of one run."""

    records: int
    """Number of records that an injector may contribute to the next epoch."""

    def took(self, records: int, seconds: float, held: int, waits: bool = False) -> None:
        """Note the duration of an epoch.

        Args:
            records: Number of records of the injector that contributed most.
            seconds: How long the epoch took.
            held: Number of records, or partial sums of records, that tasks held at once.
            waits: Whether no watermark has moved yet, as in bounded input.
        """


@dataclass(slots=True)
class FixedSize:
    """A number of records that the user has chosen."""

    records: int

    def took(self, records: int, seconds: float, held: int, waits: bool = False) -> None:
        """Do nothing: the size is fixed."""


@dataclass(slots=True)
class CheapSize:
    """A million records, or more while epochs are quick and tasks hold few records at once.

    In a quick epoch the fixed costs of an epoch matter most, and a larger one saves some of them. An epoch has up to
    four million records if it should take at most two seconds and hold at most half a million; in bounded input, which
    gives no result before its end, it may take a quarter of a minute and hold a million.

    >>> size = CheapSize()
    >>> size.took(1_000_000, 0.2, held=50)
    >>> size.records
    4000000
    >>> size.took(1_000_000, 0.2, held=100_000, waits=True)
    >>> size.records
    10000000
    >>> size.took(1_000_000, 0.2, held=1_000_000)
    >>> size.records
    1000000
    """

    records: int = USUAL

    def took(self, records: int, seconds: float, held: int, waits: bool = False) -> None:
        """See `Size`."""
        if records < USUAL // 2:
            # The injector had no more records: the epoch says nothing about larger ones.
            return
        longest, most_held, times = (
            (_WAITING_SECONDS, USUAL, _TIMES_WAITING) if waits else (_QUICK_SECONDS, USUAL // 2, _TIMES_USUAL)
        )
        growth = min(longest / max(seconds, 1e-6), most_held / max(held, 1))
        self.records = max(USUAL, min(times * USUAL, int(records * growth)))


@dataclass(slots=True)
class EpochSize:
    """The number of records that fits a latency aim, from the measured durations of epochs.

    `aim` is the latency in seconds; `least` and `most` are bounds of the number, which hold for any aim.

    >>> size = EpochSize.of(1.0, 1_000_000)
    >>> for _ in range(20):
    ...     size.took(size.records, seconds=0.1 + size.records * 1e-5)
    >>> round(size.records, -2)
    40000
    """

    aim: float
    least: int
    most: int
    records: int
    """Number of records that an injector may contribute to the next epoch."""

    @classmethod
    def of(cls, aim: float, most: int) -> EpochSize:
        """Return the size for the first epoch of a run; if `most` is less than `LEAST`, it is the lower bound, too."""
        return cls(aim, min(LEAST, most), most, min(_FIRST, most))

    def took(self, records: int, seconds: float, held: int = 0, waits: bool = False) -> None:
        """See `Size`."""
        ratio = self.aim / 2 / max(seconds, 1e-6)
        if records == 0 or (ratio >= 1 and records < self.records / 2):
            # The injector had no more records: the epoch says nothing about how long a larger one would take.
            return
        # A small epoch that took long, such as one on a busy host, has no more influence than other epochs.
        fitting = max(records * min(ratio, _MOST_AT_ONCE), self.records / _MOST_AT_ONCE)
        # The new size is halfway to the fitting one: as each epoch has fixed costs, full steps would overshoot.
        size = self.records ** (1 - _WEIGHT) * max(fitting, 1.0) ** _WEIGHT
        if ratio >= 1:
            size = max(size, self.records)
        self.records = round(min(max(size, self.least), self.most))


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Latencies of records: from the start of the epoch that reads a record to its commit.

    >>> histogram = LatencyHistogram().plus(0.004, 10).plus(7.0, 2)
    >>> histogram.counts[histogram.BOUNDS.index(0.005)], histogram.sum, sum(histogram.counts)
    (10, 14.04, 12)
    """

    BOUNDS: ClassVar = (
        *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
        *(1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, inf),
    )
    """Greatest latency of each bucket, in seconds."""
    counts: tuple[int, ...] = (0,) * len(BOUNDS)
    """Number of records in each bucket."""
    sum: float = 0.0
    """The sum of the latencies, in seconds."""

    def plus(self, seconds: float, records: int) -> LatencyHistogram:
        """The histogram with more records, which all have this latency."""
        bucket = bisect_left(self.BOUNDS, seconds)
        counts = (*self.counts[:bucket], self.counts[bucket] + records, *self.counts[bucket + 1 :])
        return LatencyHistogram(counts, self.sum + seconds * records)


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """The progress of a run after the commit of an epoch.

    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20), (3, 30)]))
    >>> def show(progress):
    ...     print(progress.epoch, progress.records_in)
    >>> result = LocalRunner().run_topology(topology, RunOptions(progress=show, max_records_per_epoch=2))
    1 2
    2 3
    """

    epoch: int
    """Number of the epoch."""
    records_in: int
    """Records read from all injectors since the pipeline first started."""
    records_out: int
    """Rows handed to sinks."""
    late: int
    """Number of records that were behind the low watermark when they were processed."""
    dropped: int
    """Number of late records that a computation dropped."""
    watermark: int
    """The least input low watermark of all computations, microseconds UTC."""
    clock: int
    """The epoch's reading of the wall clock, microseconds UTC."""
    greatest: int
    """The greatest timestamp read, microseconds UTC."""
    seconds: float
    """How long the epoch took, its commit included."""
    metrics: MetricValues = field(default_factory=dict)
    """Step -> metric -> value so far. The metrics of the engine are in the namespace `headrace`, besides those of user
    code."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Part of the epoch -> seconds. The parts are `tasks` (all user code), `commit` and `deliver` (to sinks)."""
    sinks: Mapping[str, float] = field(default_factory=dict)
    """Sink -> seconds of `deliver`."""
    hot_keys: Mapping[str, tuple[bytes, float]] = field(default_factory=dict)
    """Computation -> encoded key that had more than half of its records in the epoch, and the share."""
    fill: float | None = None
    """Records of the injector that contributed most, as a share of what the epoch could take; None if not known."""
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Computation, injector stream or sink -> counter -> total so far."""
    watermarks: Mapping[str, int] = field(default_factory=dict)
    """Computation -> its input low watermark, microseconds UTC."""
    latencies: Mapping[str, LatencyHistogram] = field(default_factory=dict)
    """Injector stream -> latencies of its records since this run began."""

    @property
    def lag(self) -> int | None:
        """How far the low watermark is behind the greatest timestamp read, in microseconds; None if one is unknown."""
        if MIN_TIMESTAMP in (self.watermark, self.greatest):
            return None
        return max(0, self.greatest - self.watermark)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run of a topology.

    >>> from headrace.lowlevel import BoundedInjector, CallSink, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20), (3, 30)]))
    >>> topology.sink("print", "numbers", CallSink(lambda epoch, rows: print(epoch, rows)))
    >>> result = LocalRunner().run_topology(topology, RunOptions(max_records_per_epoch=2))
    1 [(1, 10), (2, 20)]
    2 [(3, 30)]
    """

    checkpoint: str | None = option_field(EngineOptions.checkpoint, repr=False)
    """Directory or URL of the checkpoint; with None, the state is lost at the end of the run."""
    checkpoint_key: str | None = field(default=None, repr=False)
    """Secret with which the checkpoint is signed, so that nothing is loaded that was written without the secret
    (docs/security.md). None: the secret in the environment variable `HEADRACE_CHECKPOINT_KEY`; if the variable is not
    set, the checkpoint is not signed."""
    credentials: str | None = option_field(EngineOptions.credentials)
    """Import path `module:function` of the function that gives the credentials of object stores, for the checkpoint and
    for files, and is asked again before they run out (docs/security.md). None: that of the environment variable
    `HEADRACE_CREDENTIALS`; if it is not set, the environment's own credentials."""
    intervals: int | None = option_field(EngineOptions.intervals)
    """Initial number of key intervals of each computation, and number of tasks that work on them. None: the number of
    the checkpoint, or for a new checkpoint the runner's choice. If a checkpoint has another number, its state is
    divided again."""
    balancer: Callable[[], Balancer] | None = LoadBalancer
    """Makes the object that splits, merges and moves intervals when their load changes (paper §7.1). None: intervals
    do not change."""
    max_records_per_epoch: int | None = option_field(EngineOptions.max_records_per_epoch)
    """Approximate number of records that an injector may contribute to one epoch, which bounds memory and the work
    that a crash may lose. None: one million, or up to four million that should take at most two seconds and of which
    tasks hold at most half a million at once, or partial sums of them; in bounded input, which gives no result before
    its end, up to 64 million that should take at most 15 seconds and of which tasks hold a million, and at first up to
    16 million if `Topology.sums_bounded_input`."""
    latency_aim: float | None = option_field(EngineOptions.latency_aim)
    """Seconds from the arrival of a record until its result should be available. An epoch then has as many records as
    can be processed in half of this time, at least 1,000 and at most `max_records_per_epoch` (one million if that is
    None). None: no aim."""
    one_task_epochs: bool = option_field(EngineOptions.one_task_epochs)
    """Whether Spark may run a small epoch in one task, without a shuffle between the levels, if the measured times say
    that this is faster. The local runner ignores this option, as it has one process."""
    task_idle_seconds: float = option_field(EngineOptions.task_idle_seconds)
    """Seconds that a Spark task which has run small epochs waits for another one before it leaves its slot to others.
    While it stays, such an epoch needs no Spark job and takes milliseconds. 0: no task stays."""
    skew_limit: float | None = option_field(EngineOptions.skew_limit)
    """Seconds of event time by which an injector may be ahead of the least watermark of all injectors. An injector that
    is further ahead waits for the others, so that its records need not be stored meanwhile (paper §8.4). None: no
    limit."""
    straggler_delay: float = option_field(EngineOptions.straggler_delay)
    """Seconds that a task waits for a sink to acknowledge rows that it gets before the commit (see
    `Computation.strong_productions`). Rows that are not acknowledged in this time become part of the commit and are
    sent to the sink again afterwards, so that they are not lost and the epoch does not wait for them (paper figure
    11)."""
    cache_bytes: int = option_field(EngineOptions.cache_mb)
    """Bytes of decoded state that each worker process may keep from epoch to epoch (paper §8.3); 0 turns this cache
    off. It holds immutable values of every program, and the state of computations that declare `private_state`."""
    poll_seconds: float = option_field(EngineOptions.poll_seconds)
    """Seconds to wait before idle injectors are asked for input again."""
    progress: Callable[[EpochProgress], None] | None = option_field(EngineOptions.progress)
    """Called after each commit."""
    allow_removed: Collection[str] = option_field(EngineOptions.allow_removed)
    """Names of computations, injectors (by stream) and sinks that may be in the checkpoint but not in this topology.
    Their state is archived, and restored when a later topology has the same name again."""
    discard_stored: Collection[str] = option_field(EngineOptions.discard_stored)
    """Names whose stored state or position is deleted if it is archived, or cannot be used by this topology."""
    drop_pending: Collection[str] = option_field(EngineOptions.drop_pending)
    """Names of computations whose pending productions may be dropped without delivery."""

    def epoch_size(self, sums: bool = False) -> Size:
        """Return a new object that chooses the sizes of epochs by these options.

        `sums`: see `Topology.sums_bounded_input`.
        """
        most = self.max_records_per_epoch
        if self.latency_aim is not None:
            return EpochSize.of(self.latency_aim, USUAL if most is None else most)
        return CheapSize(_FIRST_OF_SUMS if sums else USUAL) if most is None else FixedSize(most)

    @property
    def consent(self) -> Consent:
        """What the user allows if the topology differs from that of the checkpoint."""
        return Consent(self.allow_removed, self.discard_stored, self.drop_pending)

    def __post_init__(self) -> None:
        for name, option in _table().items():
            option.check(name, getattr(self, name))


def _table() -> dict[str, Option[object]]:
    """Field of `RunOptions` -> its row in the table of options, for the fields that a pipeline's options give."""
    return {each.name: each.metadata["option"] for each in fields(RunOptions) if "option" in each.metadata}


def run_options(options: PipelineOptions, progress: Callable[[EpochProgress], None] | None = None) -> RunOptions:
    """The engine's options for those of a pipeline; what is not given keeps the engine's default.

    Args:
        options: The options of the pipeline.
        progress: Called after each commit, instead of what the options name.

    Raises:
        ValueError: An option is not declared, or a value is invalid; nothing has run.
    """
    check_known(options)
    view = options.view_as(EngineOptions)
    given: dict[str, Any] = {name: option.in_engine(getattr(view, option.name)) for name, option in _table().items()}
    given["checkpoint"] = checkpoint_of(options)
    given["progress"] = progress or progress_of(options)
    given = {name: value for name, value in given.items() if value is not None}
    if not view.balance:
        given["balancer"] = None
    return RunOptions(**given)


def check_program(topology: object, options: object) -> None:
    """Check the types of the arguments of `run_topology`.

    Raises:
        TypeError: `topology` is not a topology, or `options` is neither None nor `RunOptions`.
    """
    if not isinstance(topology, Topology):
        raise TypeError(f"run_topology takes a Topology, got {topology!r:.200}; a Pipeline runs with pipeline.run()")
    if options is not None and not isinstance(options, RunOptions):
        raise TypeError(f"run_topology takes RunOptions, got {options!r:.200}; write RunOptions(checkpoint=...), say")


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a finished run.

    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20)]))
    >>> result = LocalRunner().run_topology(topology)
    >>> result.epochs, result.counters
    (1, {'numbers': {'records': 2}})
    """

    epochs: int
    """Number of epochs committed since the pipeline first started."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """Computation, injector stream or sink -> counter -> total."""
    watermarks: dict[str, int] = field(default_factory=dict)
    """Computation -> input low watermark at the end, microseconds UTC."""
    unfired_wall_timers: int = 0
    """Number of intervals in which wall-time timers were still waiting when the input had ended."""
    metrics: MetricValues = field(default_factory=dict, compare=False)
    """Step -> metric -> value. The metrics of the engine are in the namespace `headrace`, besides those of user code.
    Metrics are not compared by `==`, because gauges contain the wall-clock time of the run."""

    def total(self, counter: str) -> int:
        """Return the sum of a counter over the whole topology.

        >>> RunResult(1, {"a": {"late": 2}, "b": {"late": 1}}).total("late")
        3
        """
        return sum(counters.get(counter, 0) for counters in self.counters.values())


class Hooks:
    """Hooks by which tests choose the size of epochs and stop a driver at any step of the protocol."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        """Return how many records an injector may contribute to this epoch, at most `limit`."""
        return limit

    def step(self, name: str, epoch: int) -> None:
        """Called before and after each step of the protocol."""
