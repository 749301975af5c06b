"""Figures of a run's progress for reporters: those of each step, the rates of records, and their text forms.

The table of a run is names and texts: a few lines for the run, and a table with a line for each step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headrace.lowlevel.metric import ENGINE, MetricValues
from headrace.lowlevel.metric_cells import CounterCell, GaugeCell
from headrace.lowlevel.records.block import key_for_message
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from headrace.runners.engine.activity import Activity, RunPhase
from headrace.runners.engine.options import EpochProgress

_SPAN = 10.0
"""Seconds over which rates are averaged."""


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Figures of one computation, injector stream or sink; None for a figure that it lacks or that is not known yet."""

    step: str
    records_in: int | None = None
    records_out: int | None = None
    by_column: int | None = None
    """Records that the step took as columns."""
    one_by_one: int | None = None
    """Records that the step took one by one."""
    late: int | None = None
    dropped_late: int | None = None
    duplicates: int | None = None
    dead_letters: int | None = None
    """Records that user code raised for, and that were set aside."""
    timers: int | None = None
    """Number of timers that have fired."""
    watermark: int | None = None
    """Microseconds UTC."""
    lag: int | None = None
    """How far the watermark is behind the greatest timestamp read, microseconds."""
    state_bytes: int | None = None
    backlog: int | None = None
    """Records that wait in the source, as it was known when the last epoch was planned."""


_NAMES = frozenset(StepFigures.__slots__) - {"step"}


def step_figures(metrics: MetricValues) -> list[StepFigures]:
    """Return the figures of every step that has any, in the order of the metrics.

    >>> from headrace.lowlevel.metric import TypedMetricName
    >>> cells = {"Sum": {TypedMetricName("counter", ENGINE, "records_in"): CounterCell(3)}}
    >>> [figures] = step_figures(cells)
    >>> figures.step, figures.records_in, figures.late
    ('Sum', 3, None)
    """
    found = []
    for step, cells in metrics.items():
        values: dict[str, int | None] = {}
        for metric, cell in cells.items():
            if metric.namespace == ENGINE and metric.name in _NAMES and isinstance(cell, CounterCell | GaugeCell):
                values[metric.name] = cell.total if isinstance(cell, CounterCell) else cell.value
        if values.get("watermark") == MIN_TIMESTAMP:
            values["watermark"] = None
        if values:
            found.append(StepFigures(step, **values))
    return found


def total(steps: Iterable[StepFigures], name: str) -> int:
    """Return the sum of a figure over all steps that have it."""
    return sum(getattr(step, name) or 0 for step in steps)


def backlog(metrics: MetricValues) -> int | None:
    """Return the records that wait in all sources that know it; None if none does."""
    known = [step.backlog for step in step_figures(metrics) if step.backlog is not None]
    return sum(known) if known else None


@dataclass(slots=True)
class Rates:
    """Rates of records in and out, averaged over the last ten seconds.

    >>> rates = Rates()
    >>> for second in range(1, 4):
    ...     rates.note(EpochProgress(second, 100 * second, 10 * second, 0, 0, 0, 0, 0, 1.0), at=float(second))
    >>> rates.per_second
    (100.0, 10.0)
    """

    _noted: deque[tuple[float, int, int]] = field(default_factory=deque)

    def note(self, progress: EpochProgress, at: float) -> None:
        """Note the progress of the run at time `at`, in seconds of a monotonic clock."""
        if not self._noted and progress.epoch == 1:
            # At a later epoch, the number of records of earlier runs on the checkpoint would not be known.
            self._noted.append((at - progress.seconds, 0, 0))
        self._noted.append((at, progress.records_in, progress.records_out))
        while len(self._noted) > 2 and self._noted[0][0] < at - _SPAN:
            self._noted.popleft()

    @property
    def are_known(self) -> bool:
        """Whether rates are known. After the first epoch of a run that continues from a checkpoint, they are not."""
        return len(self._noted) > 1

    @property
    def per_second(self) -> tuple[float, float]:
        """The rates in and out, in records a second."""
        (began, read, written), (ended, reads, writes) = self._noted[0], self._noted[-1]
        seconds = max(ended - began, 1e-6)
        return (reads - read) / seconds, (writes - written) / seconds


_SLOW_SECONDS = 1.0
"""Seconds from which on a sink that takes most of an epoch is said to be slow."""
LONG_SECONDS = 5.0
"""Seconds from which on an epoch is said to be running, and by what it is kept."""


def long_phase(activity: Activity | None, at_least: float = LONG_SECONDS) -> str:
    """Return what a run has been doing for at least this many seconds; empty if it gets on, or waits."""
    if activity is None:
        return ""
    doing = activity.doing()
    is_long = max(doing.seconds, doing.epoch_seconds or 0.0) >= at_least
    return doing.sentence if is_long and doing.phase is not RunPhase.WAIT else ""


def slow_sink(progress: EpochProgress) -> str:
    """Return which sink took most of the last epoch, in words; empty if none did, or the epoch was short.

    >>> slow_sink(EpochProgress(7, 1, 1, 0, 0, 0, 0, 0, 8.5, sinks={"Out": 8.0, "Other": 0.1}))
    "sink 'Out' took 8.0 s of the 8.5 s of epoch 7"
    """
    name = max(progress.sinks, key=progress.sinks.__getitem__, default="")
    seconds = progress.sinks.get(name, 0.0)
    if seconds < _SLOW_SECONDS or seconds < progress.seconds / 2:
        return ""
    return f"sink {name!r} took {seconds:.1f} s of the {progress.seconds:.1f} s of epoch {progress.epoch:,}"


def hot_key(progress: EpochProgress) -> str:
    """Return which key had most of a step's records in the last epoch, in words; empty if none had.

    >>> from headrace.lowlevel.coders.coder import encode_key
    >>> hot_key(EpochProgress(7, 1, 1, 0, 0, 0, 0, 0, 8.5, hot_keys={"Sum": (encode_key("red"), 0.95)}))
    "key 'red' had 95 % of the records of 'Sum' in epoch 7"
    """
    name = max(progress.hot_keys, key=lambda step: progress.hot_keys[step][1], default="")
    if not name:
        return ""
    key, share = progress.hot_keys[name]
    shown = f"{key_for_message(key)!r:.80}"
    return f"key {shown} had {100 * share:.0f} % of the records of {name!r} in epoch {progress.epoch:,}"


def shown_time(timestamp: int | None) -> str:
    """Return a watermark, in microseconds UTC, as text for people.

    >>> shown_time(None), shown_time(0), shown_time(MAX_TIMESTAMP)
    ('-', '1970-01-01 00:00:00', 'the end')
    """
    if timestamp is None or timestamp <= MIN_TIMESTAMP:
        return "-"
    if timestamp >= MAX_TIMESTAMP:
        return "the end"
    try:
        return Timestamp(micros=timestamp - timestamp % 1_000_000).to_rfc3339().replace("T", " ").removesuffix("Z")
    except OverflowError:
        return f"{timestamp / 1e6:,.0f} s"


def shown_span(micros: int | None) -> str:
    """Return a span of time, in microseconds, as text for people.

    >>> [shown_span(seconds * 1_000_000) for seconds in (0, 5, 75, 3_700, 90_000)]
    ['0 s', '5 s', '1 min 15 s', '1 h 1 min', '1 d 1 h']
    """
    if micros is None:
        return "-"
    seconds = micros / 1e6
    if seconds < 60:
        return f"{seconds:.3g} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    larger = next(place for place, (_, size) in enumerate(units) if seconds >= size)
    (name, size), (lesser, part) = units[larger], units[larger + 1]
    whole, rest = divmod(int(seconds), size)
    return f"{whole} {name} {rest // part} {lesser}"


def shown_bytes(size: int | None) -> str:
    """Return a size, in bytes, as text for people.

    >>> [shown_bytes(size) for size in (0, 999, 20_480, 3 << 20)]
    ['0 B', '999 B', '20 KiB', '3.0 MiB']
    """
    if size is None:
        return "-"
    if size < 1024:
        return f"{size} B"
    number = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1024:
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"


@dataclass(frozen=True, slots=True)
class TextFigure:
    """A figure as text, with its name."""

    name: str
    value: str
    alarming: bool = False
    """Whether the figure counts late, dropped or duplicate records, and is not 0."""


def heading(progress: EpochProgress, rates: Rates, steps: Sequence[StepFigures]) -> list[list[TextFigure]]:
    """Return three lines of figures of the whole run: counts of records, event time, and durations of the last epoch.

    >>> flow, *_ = heading(EpochProgress(7, 1_200, 40, 0, 0, 0, 0, 0, 0.25), Rates(), [])
    >>> " ".join(f"{figure.name} {figure.value}" for figure in flow)
    'epoch 7 in 1,200 out 40 late 0 dropped 0 duplicates 0'
    """
    into, out = (f" ({rate:,.0f}/s)" for rate in rates.per_second) if rates.are_known else ("", "")
    lost = {"late": progress.late, "dropped": progress.dropped, "duplicates": total(steps, "duplicates")}
    flow = [
        TextFigure("epoch", f"{progress.epoch:,}"),
        TextFigure("in", f"{progress.records_in:,}{into}"),
        TextFigure("out", f"{progress.records_out:,}{out}"),
        *(TextFigure(name, f"{count:,}", alarming=count > 0) for name, count in lost.items()),
    ]
    event_time = [
        TextFigure("watermark", shown_time(progress.watermark)),
        TextFigure("lag", shown_span(progress.lag)),
        TextFigure("state", shown_bytes(total(steps, "state_bytes"))),
    ]
    phases = {"last epoch": progress.seconds, **progress.phases}
    return [flow, event_time, [TextFigure(name, f"{1000 * seconds:,.0f} ms") for name, seconds in phases.items()]]


Column = tuple[str, Callable[[StepFigures], str]]

COLUMNS: tuple[Column, ...] = (
    ("in", lambda step: _count(step.records_in)),
    ("out", lambda step: _count(step.records_out)),
    ("late", lambda step: _count(step.late)),
    ("dropped", lambda step: _count(step.dropped_late)),
    ("watermark", lambda step: "" if step.watermark is None else shown_time(step.watermark)),
    ("lag", lambda step: "" if step.lag is None else shown_span(step.lag)),
    ("state", lambda step: "" if step.state_bytes is None else shown_bytes(step.state_bytes)),
)

_MOST_TELLING = ("lag", "in", "watermark", "late", "state", "out", "dropped")
"""Names of columns by importance. A narrow table has the first ones; for most others, the heading has the sum."""
_GAP = 2
_SHORTEST_NAME = 12
SHARE_OF_NAMES = 1 / 3
"""Part of the width that is kept free for the names of steps."""


def columns_for(width: int, steps: Sequence[StepFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings, and the cells of each step, with as many columns as fit into `width` characters.

    >>> steps = [StepFigures("Sum", records_in=120, late=3, watermark=0, lag=5_000_000)]
    >>> columns_for(36, steps)
    (['step', 'in', 'late', 'lag'], [['Sum', '120', '3', '5 s']])
    """
    known = {column[0]: column for column in COLUMNS if any(column[1](step) for step in steps)}
    longest = max((len(step.step) for step in steps), default=0)
    room, names = width - max(_SHORTEST_NAME, min(longest, int(width * SHARE_OF_NAMES))), set()
    for name in _MOST_TELLING:
        if name in known and (needed := _width(known[name], steps)) <= room:
            room -= needed
            names.add(name)
    chosen = [column for name, column in known.items() if name in names]
    # Steps that read input come first, as in the pipeline; they have no records in.
    steps = sorted(steps, key=lambda step: step.records_in is not None)
    return (
        ["step", *(heading for heading, _ in chosen)],
        [[step.step, *(show(step) for _, show in chosen)] for step in steps],
    )


def _width(column: Column, steps: Sequence[StepFigures]) -> int:
    heading, show = column
    return _GAP + max([len(heading), *(len(show(step)) for step in steps)])


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
