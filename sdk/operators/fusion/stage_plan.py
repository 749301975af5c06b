"""The plan of a fused stage: its steps, the collections between them, the streams that leave, and its counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from headrace.lowlevel.metric import ENGINE, TypedMetricName, at, report
from headrace.sdk.expressions.translated_function import TranslatedFunction
from headrace.sdk.functions.arguments import Arguments, Given, Side
from headrace.sdk.functions.do_fn import DoFn, FilterFn, MapFn
from headrace.sdk.metrics.metric import ColumnCounts
from headrace.sdk.model.element_form import ElementForm, always_one_window, plain_form
from headrace.sdk.windows.windowing import Windowing

_IN = TypedMetricName("counter", ENGINE, "records_in")
_OUT = TypedMetricName("counter", ENGINE, "records_out")


@dataclass(frozen=True, slots=True)
class ElementStep:
    """A `DoFn` between collections of a stage."""

    label: str
    fn: DoFn
    arguments: Arguments
    source: int
    """Number of the input collection."""
    outputs: dict[str | None, int]
    """Tag (None for the main output) -> number of the collection, for outputs that something reads."""
    seen: TranslatedFunction | None = None
    """The translated function, if the step's function could be translated."""

    def output_form(self, form: ElementForm, windowing: Windowing) -> ElementForm:
        """The form of the step's outputs for an input element of a form; `windowing` is that of the input."""
        if isinstance(self.fn, FilterFn) and Given.WINDOW not in self.arguments and not self.is_sided():
            return form
        if self.is_sided():
            return ElementForm.FIRED
        if Given.WINDOW in self.arguments and (form is ElementForm.WINDOWED or not always_one_window(windowing)):
            return ElementForm.FIRED
        return form

    def is_sided(self) -> bool:
        """Whether the step takes side values."""
        return any(isinstance(source, Side) for source in self.arguments.sources())

    def is_one_to_one(self) -> bool:
        """Whether each element gives exactly one output, or one with a tag that nothing reads."""
        return isinstance(self.fn, MapFn) and list(self.outputs) == [None] and Given.WINDOW not in self.arguments


@dataclass(frozen=True, slots=True)
class WindowStep:
    """A `WindowInto` between collections of a stage."""

    label: str
    source: int
    output: int
    keeps_retractions: bool = False
    """Whether elements may be retractions; these keep their pane in the new windows."""

    def output_form(self, form: ElementForm, windowing: Windowing) -> ElementForm:
        """The form of the step's output; `windowing` is the new windowing."""
        return ElementForm.WINDOWED if self.keeps_retractions else plain_form(windowing)


@dataclass(frozen=True, slots=True)
class Exit:
    """An exit: a stream by which elements of a collection leave the stage."""

    label: str
    """Label of the step that reads the stream."""
    source: int
    stream: str
    form: ElementForm | None
    """How the stream carries windows; None for the bare value without its windows."""
    keyed: bool = False
    """Whether the stream carries pairs (key, value), of which only the value has the form."""
    spare: str | None = None
    """A stream in the form WINDOWED for elements that the form PLAIN cannot carry."""


Step = ElementStep | WindowStep


@dataclass
class StagePlan:
    """A tree of steps below one collection, the root (number 0); it is shipped to the workers."""

    entries: dict[str, ElementForm]
    """Input stream -> how it carries windows."""
    windowings: list[Windowing]
    """Windowing of each collection; the index is the number of the collection."""
    steps: list[Step] = field(default_factory=list)
    """Each step stands behind the step that makes its input."""
    exits: list[Exit] = field(default_factory=list)

    def name(self, stream: str) -> str:
        """The name of the stage: labels of the first and last step. It is unique, as each step is in one stage only.

        A stage without steps is named after its input stream.
        """
        if not self.steps:
            return f"{stream}#out"
        first, last = self.steps[0].label, self.steps[-1].label
        return first if len(self.steps) == 1 else f"{first} to {last}"

    def consumers(self, node: int) -> list[tuple[int, Step | Exit]]:
        """The readers of a collection: steps, then exits, each with its index in `steps` or `exits`."""
        steps: list[tuple[int, Step | Exit]] = [(i, s) for i, s in enumerate(self.steps) if s.source == node]
        return steps + [(i, exit_) for i, exit_ in enumerate(self.exits) if exit_.source == node]

    def element_steps(self) -> Iterator[ElementStep]:
        """The steps that run user code."""
        return (step for step in self.steps if isinstance(step, ElementStep))

    def as_many_as(self) -> dict[int, int]:
        """Collection -> another one known to have as many elements, so that the first need not be counted."""
        equal = {}
        for step in self.steps:
            one_window = always_one_window(self.windowings[step.source])
            if isinstance(step, WindowStep):
                if one_window and always_one_window(self.windowings[step.output]):
                    equal[step.output] = step.source
            elif one_window and step.is_one_to_one():
                equal[step.outputs[None]] = step.source
        return equal

    def outputs(self) -> list[str]:
        """Every stream that the stage may produce to."""
        return list(dict.fromkeys(name for exit_ in self.exits for name in (exit_.stream, exit_.spare) if name))


def pass_through_exits(plan: StagePlan, node: int) -> list[Exit] | None:
    """The exits that plain elements of a collection reach unchanged; None if a step has to look at each element.

    A `WindowInto` changes nothing if the old windowing has one window per element and the new windows follow from
    the timestamp.
    """
    exits: list[Exit] = []
    for _, reader in plan.consumers(node):
        if isinstance(reader, Exit):
            if reader.form not in (None, ElementForm.PLAIN):
                return None
            exits.append(reader)
        elif isinstance(reader, WindowStep) and always_one_window(plan.windowings[node]):
            further = pass_through_exits(plan, reader.output)
            if (
                further is None
                or reader.output_form(ElementForm.PLAIN, plan.windowings[reader.output]) is not ElementForm.PLAIN
            ):
                return None
            exits += further
        else:
            return None
    return exits


def are_pairs(values: Sequence[object]) -> bool:
    """Whether every value is a tuple of length two, not of a subclass of tuple.

    >>> are_pairs([("a", 1), ("b", 2)]), are_pairs([("a", 1), ["b", 2]]), are_pairs(["ab"])
    (True, False, False)
    """
    return set(map(type, values)) <= {tuple} and set(map(len, cast("Sequence[tuple[object, ...]]", values))) <= {2}


def report_elements(label: str, came: int, went: int, by_column: int | None) -> None:
    """Report the numbers of elements that a step has taken, put out, and taken as columns, as metrics of the step.

    `by_column` is None for a step that does nothing with its elements.
    """
    with at(label):
        for metric, count in ((_IN, came), (_OUT, went)):
            if count:
                report(metric, count)
        if by_column is not None:
            taken = ColumnCounts()
            taken.add(by_column, True)
            taken.add(came - by_column, False)
            taken.report()


class Throughput:
    """Counts the elements of each collection of a stage in a bundle; collections that nothing reads are not counted."""

    def __init__(self, plan: StagePlan) -> None:
        self._as_many_as = plan.as_many_as()
        self._steps = [
            (step.label, step.source, [step.output] if isinstance(step, WindowStep) else list(step.outputs.values()))
            for step in plan.steps
        ]
        self._counts: dict[int, int] = {}
        self._lost: dict[int, int] = {}
        self._by_column: dict[str, int] = {}
        """Label of a step -> number of the elements that it has taken as columns."""
        self._windowing = {step.label for step in plan.steps if isinstance(step, WindowStep)}

    def clear(self) -> None:
        """Begin a bundle: set all counts to zero."""
        self._counts.clear()
        self._lost.clear()
        self._by_column.clear()

    def add_by_column(self, label: str, count: int) -> None:
        """Count elements that a step has taken as columns."""
        self._by_column[label] = self._by_column.get(label, 0) + count

    def add(self, node: int, count: int) -> None:
        """Count the elements of a collection that a loop is about to run over."""
        if node not in self._as_many_as:
            self._counts[node] = self._counts.get(node, 0) + count

    def add_all(self, nodes: Sequence[int], counts: Sequence[int]) -> None:
        """Add the counts that a loop returned, one for each of the collections; ValueError if the lengths differ."""
        for node, count in zip(nodes, counts, strict=True):
            self._counts[node] = self._counts.get(node, 0) + count

    def count_lost(self, step: ElementStep) -> None:
        """Count an output of a step whose tag nothing reads."""
        node = step.outputs.get(None)
        if node in self._as_many_as:
            self._lost[node] = self._lost.get(node, 0) + 1

    def report(self) -> None:
        """Report the counts of the bundle as metrics of the steps."""
        for label, source, outputs in self._steps:
            by_column = None if label in self._windowing else self._by_column.get(label, 0)
            report_elements(label, self._count(source), sum(map(self._count, outputs)), by_column)

    def _count(self, node: int) -> int:
        lost = 0
        while node in self._as_many_as:
            lost += self._lost.get(node, 0)
            node = self._as_many_as[node]
        return self._counts.get(node, 0) - lost
