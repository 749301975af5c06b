"""Whether each step is vectorized (whole columns, all keys at once) or works one by one, and why.

`grouping_strategy` decides this for a grouping, `paths` of `sdk.operators.fusion.vectorized_stage` for element-wise
steps. `headrace explain` prints the reasons, and the logger `headrace.sdk.compile` logs them at level INFO.

The strategies of steps inside of a transform of the engine are folded into the step that the program has:
`WriteToText` consists of `PaneMark`, `Files` and others, and `GroupBy` of `Key` and `GroupByKey`. Who has written a
program with these transforms does not know such names. The parts of a transform of the program's own stay, as these are
in the program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.graph.ptransform import is_of_engine
from headrace.sdk.graph.pvalue import Step
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.combiner_lifting import liftable
from headrace.sdk.operators.fusion.vectorized_stage import ONE_AT_A_TIME
from headrace.sdk.operators.vectorized.eligibility import gap_of, obstacle
from headrace.sdk.windows.windowing import Windowing

ALL_KEYS = "all keys at once"
"""What a vectorized grouping processes at a time."""


class Grouper(Enum):
    """The computation that does a grouping."""

    PER_KEY = "Grouping"
    """One key at a time, whatever the windowing."""
    COLUMNS = "ColumnGrouping"
    """All keys of an interval at once; it appends or updates, as windows have one pane or several."""
    SESSIONS = "ColumnSessions"
    """The sessions of all keys of an interval at once."""
    LISTS = "ColumnGroupByKey"
    """All keys of an interval at once, for a grouping that keeps all elements of windows with one pane."""
    JOIN = "ColumnJoin"
    """All keys of an interval at once, for a grouping whose elements are joined, in windows with one pane."""


class Lifting(Enum):
    """What is done to the elements of a bundle before the shuffle."""

    NOTHING = ""
    WINDOWS = "LiftedCombine"
    """Those of a key and window are combined."""
    SESSIONS = "SessionLifting"
    """Those of a key that are less than a gap apart are combined."""


@dataclass(frozen=True, slots=True)
class GroupingStrategy:
    """Which implementation a grouping takes."""

    grouper: Grouper
    lifting: Lifting
    fans_out: bool
    """Whether each key is combined in shards first."""
    obstacle: str | None
    """Why the computation is not vectorized; None if it is."""

    def of_step(self, label: str) -> ExecutionStrategy:
        """The strategy as `headrace explain` shows it for a step."""
        return ExecutionStrategy(label, ALL_KEYS, "key by key", self.obstacle)


def grouping_strategy(
    windowing: Windowing,
    combine: AnyCombineFn | None,
    forms: Collection[GroupingInputForm],
    *,
    takes_back: bool,
    has_fanout: bool,
    joins: bool = False,
) -> GroupingStrategy:
    """Choose the implementation of a grouping; nothing about it is chosen elsewhere.

    Args:
        windowing: Windowing of the input.
        combine: CombineFn of the grouping; None for a grouping that keeps all elements.
        forms: How the input streams carry windows: `PLAIN` or `WINDOWED`.
        takes_back: Whether the input may have retractions.
        has_fanout: Whether the program asks for a fan-out of hot keys.
        joins: Whether the elements are joined, and nothing else reads them.

    >>> from headrace.sdk.combinefns.numeric import SumFn
    >>> from headrace.sdk.windows import Sessions
    >>> forms = [GroupingInputForm.PLAIN]
    >>> strategy = grouping_strategy(Windowing.of(Sessions(9)), SumFn(), forms, takes_back=False, has_fanout=False)
    >>> strategy.grouper.name, strategy.lifting.name, strategy.fans_out
    ('SESSIONS', 'SESSIONS', False)
    """
    reason = obstacle(windowing, combine, takes_back=takes_back, spread=has_fanout)
    combines = combine is not None and not takes_back
    lifts = combines and all(liftable(windowing, form) for form in forms)
    fans_out = combines and has_fanout and not windowing.trigger.needs_values
    if reason is not None:
        return GroupingStrategy(Grouper.PER_KEY, Lifting.WINDOWS if lifts else Lifting.NOTHING, fans_out, reason)
    if combine is None:
        return GroupingStrategy(Grouper.JOIN if joins else Grouper.LISTS, Lifting.NOTHING, fans_out, None)
    if gap_of(windowing) is not None:
        assert not fans_out, "obstacle() refuses sessions with fan-out: parts of a session have no shards"
        return GroupingStrategy(Grouper.SESSIONS, Lifting.SESSIONS, fans_out, None)
    assert lifts, f"{windowing}: a ColumnGrouping has lifted input only; obstacle() must refuse it"
    return GroupingStrategy(Grouper.COLUMNS, Lifting.WINDOWS, fans_out, None)


@dataclass(frozen=True, slots=True)
class ExecutionStrategy:
    """How a step processes its elements, and why.

    >>> print(ExecutionStrategy("Sum", "all keys at once", "key by key", None))
    step 'Sum' processes all keys at once
    """

    step: str
    vectorized: str
    """What the step processes at a time if it is vectorized."""
    otherwise: str
    """What it processes at a time if it is not."""
    obstacle: str | None
    """Why the step is not vectorized; None if it is."""
    exception: str = ""
    """Which elements are processed otherwise, and why; empty if none are."""

    def __str__(self) -> str:
        unit = self.vectorized if self.obstacle is None else f"{self.otherwise}: {self.obstacle}"
        return f"step {self.step!r} processes {unit}{self.exception and f'; {self.exception}'}"


def one_for_each_step(
    groupings: Iterable[ExecutionStrategy], elements: Iterable[ExecutionStrategy]
) -> list[ExecutionStrategy]:
    """Merge the strategies of groupings and of element-wise processing: one for each step.

    >>> sums = ExecutionStrategy("Sum", "all keys at once", "key by key", None)
    >>> inputs = ExecutionStrategy("Sum", "columns", "elements one by one", "step 'Timed' gives them so")
    >>> print(*one_for_each_step([sums], [inputs]))
    step 'Sum' processes all keys at once; its elements come one by one: step 'Timed' gives them so
    """
    merged: dict[str, ExecutionStrategy] = {}
    for strategy in elements:
        known = merged.setdefault(strategy.step, strategy)
        if known.obstacle != strategy.obstacle and not known.exception:
            # Elements of a step come in two forms: with the window that their time says, and with windows of their own.
            first, other = (known, strategy) if known.obstacle is None else (strategy, known)
            exception = f"some one by one: {other.obstacle}"
            merged[strategy.step] = first if first.obstacle else replace(first, exception=exception)
    for strategy in groupings:
        of_elements = merged.get(strategy.step)
        if of_elements is not None and of_elements.obstacle is not None:
            strategy = replace(strategy, exception=f"its elements come one by one: {of_elements.obstacle}")
        merged[strategy.step] = strategy
    return list(merged.values())


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A step of the program."""

    strategy: ExecutionStrategy
    """That of the step as a whole; its reason names steps of the program."""
    parts: tuple[ExecutionStrategy, ...]
    """Those of the steps inside, in the order of the topology."""


def steps_of_program(steps: Sequence[Step], strategies: Sequence[ExecutionStrategy]) -> list[ProgramStep]:
    """The steps that the program has, each with its parts; reasons name these steps, too.

    >>> import headrace as beam
    >>> from headrace.sdk.compiler.compiler import execution_strategies
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | beam.Create(["ab"]) | beam.GroupBy(len)
    >>> [step] = steps_of_program(pipeline.steps, execution_strategies(pipeline))
    >>> print([part.step for part in step.parts], step.strategy.step)
    ['GroupBy(key)/Key', 'GroupBy(key)/GroupByKey'] GroupBy(key)
    """
    of_engine = [step.full_label for step in steps if is_of_engine(step.transform)]
    labels = {strategy.step: _step_around(strategy.step, of_engine) for strategy in strategies}
    parts: dict[str, list[ExecutionStrategy]] = {}
    for strategy in strategies:
        parts.setdefault(labels[strategy.step], []).append(strategy)
    return [ProgramStep(_whole(label, found, labels), tuple(found)) for label, found in parts.items()]


def _whole(label: str, parts: Sequence[ExecutionStrategy], labels: Mapping[str, str]) -> ExecutionStrategy:
    """How a step processes elements: as its grouping does, or as its first part that is not vectorized."""
    groupings = [part for part in parts if part.vectorized == ALL_KEYS]
    slow = next((part for part in parts if part not in groupings and part.obstacle is not None), None)
    whole = next((part for part in groupings if part.obstacle is not None), (groupings or [slow or parts[0]])[0])
    if groupings and slow is not None and whole.obstacle is None:
        whole = replace(whole, exception=f"its elements come one by one: {slow.obstacle}")
    obstacle = None if whole.obstacle is None else _renamed(whole.obstacle, labels)
    return replace(whole, step=label, obstacle=obstacle, exception=_renamed(whole.exception, labels))


def _step_around(label: str, of_engine: Iterable[str]) -> str:
    around = [other for other in of_engine if f"{label}/".startswith(f"{other}/")]
    return min(around, key=len, default=label)


def _renamed(reason: str, labels: Mapping[str, str]) -> str:
    """A reason that names the steps of the program."""
    for part, label in labels.items():
        reason = reason.replace(f"step {part!r} ", f"step {label!r} ")
    return reason.replace(ONE_AT_A_TIME, "a part of the transform takes one element at a time")
