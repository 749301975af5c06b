"""What one fused stage does: steps between the collections inside it, and the streams that leave it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from headrace.sdk.columns.seen import Seen
from headrace.sdk.transforms.element import DoFn, FilterFn, MapFn
from headrace.sdk.transforms.parameters import Arguments, Given, Side
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import DaysWindows, FixedWindows, GlobalWindows, MonthsWindows, Sessions, SlidingWindows

_ALWAYS_ONE = (GlobalWindows, FixedWindows, Sessions, DaysWindows, MonthsWindows)
_BY_TIMESTAMP = (*_ALWAYS_ONE, SlidingWindows)


class Form(Enum):
    """How an element of a stream carries its windows and its pane."""

    PLAIN = "plain"
    """Just the value: windows follow from the timestamp, and the pane is that of no trigger."""
    FIRED = "fired"
    """(value, window, pane): what a grouping puts out."""
    WINDOWED = "windowed"
    """(value, tuple of windows, pane or None)."""
    SIDED = "sided"
    """(value, window, pane or None, side values): what a gate lets go, for the step that takes the side values."""


def plain_form(windowing: Windowing) -> Form:
    """The form of elements that are in the windows that the windowing gives them.

    Only where windows follow from the timestamp alone can they be left out.
    """
    return Form.PLAIN if type(windowing.window_fn) in _BY_TIMESTAMP else Form.WINDOWED


def always_one_window(windowing: Windowing) -> bool:
    """Whether an element gets exactly one window, known without looking."""
    return type(windowing.window_fn) in _ALWAYS_ONE


@dataclass(frozen=True, slots=True)
class ElementStep:
    """A `DoFn` between collections of a stage."""

    label: str
    fn: DoFn
    arguments: Arguments
    source: int
    outputs: dict[str | None, int]
    """Tag -> collection, for those that something reads."""
    seen: Seen | None = None
    """What its function returns, if the engine sees through it."""

    def output_form(self, form: Form, windowing: Windowing) -> Form:
        """The form of what it puts out for an element of a form."""
        if isinstance(self.fn, FilterFn) and Given.WINDOW not in self.arguments and not self.is_sided():
            return form
        if self.is_sided():
            return Form.FIRED
        if Given.WINDOW in self.arguments and (form is Form.WINDOWED or not always_one_window(windowing)):
            return Form.FIRED
        return form

    def is_sided(self) -> bool:
        """Whether it takes side values."""
        return any(isinstance(source, Side) for source in self.arguments.sources())

    def is_one_to_one(self) -> bool:
        """Whether each element gives one output, unless that has a tag that nothing reads."""
        return isinstance(self.fn, MapFn) and list(self.outputs) == [None] and Given.WINDOW not in self.arguments

    def chooses_windows(self) -> bool:
        """Whether it may put out values in windows of its own choice."""
        return not isinstance(self.fn, FilterFn)

    def finishes(self) -> bool:
        """Whether it may put something out at the end of a bundle."""
        return self.fn.has_finish_bundle()


@dataclass(frozen=True, slots=True)
class WindowStep:
    """A `WindowInto` between collections of a stage."""

    label: str
    source: int
    output: int
    keeps_retractions: bool = False
    """Whether elements may be retractions, and are to be known as such in their new windows."""

    def output_form(self, form: Form, windowing: Windowing) -> Form:
        """The form of what it puts out, where `windowing` is the new one."""
        return Form.WINDOWED if self.keeps_retractions else plain_form(windowing)


@dataclass(frozen=True, slots=True)
class Exit:
    """Where elements of a collection leave the stage."""

    label: str
    """The step that reads them."""
    source: int
    stream: str
    form: Form | None
    """How the stream carries windows; None for the bare value, whatever its windows are."""
    keyed: bool = False
    """Whether the stream carries (key, value) with only the value in the form."""
    spare: str | None = None
    """A stream in the form WINDOWED for elements that the form PLAIN cannot carry."""


Step = ElementStep | WindowStep


@dataclass
class StagePlan:
    """A tree of steps on one collection, the stage's root (number 0); shipped to the workers."""

    entries: dict[str, Form]
    """Input stream -> how it carries windows."""
    windowings: list[Windowing]
    """Of each collection, by its number."""
    steps: list[Step] = field(default_factory=list)
    """In order of the flow."""
    exits: list[Exit] = field(default_factory=list)

    def name(self, stream: str) -> str:
        """The labels of its first and its last step; each step is in one stage, so no other stage is named so."""
        if not self.steps:
            return f"{stream}#out"
        first, last = self.steps[0].label, self.steps[-1].label
        return first if len(self.steps) == 1 else f"{first} to {last}"

    def consumers(self, node: int) -> list[tuple[int, Step | Exit]]:
        """What reads a collection: steps, then exits, each with its place in the plan's list of them."""
        steps: list[tuple[int, Step | Exit]] = [(i, s) for i, s in enumerate(self.steps) if s.source == node]
        return steps + [(i, leave) for i, leave in enumerate(self.exits) if leave.source == node]

    def element_steps(self) -> Iterator[ElementStep]:
        """The steps that run user code."""
        return (step for step in self.steps if isinstance(step, ElementStep))

    def as_many_as(self) -> dict[int, int]:
        """Collections that are known to have as many elements as another one, so that nobody need count them."""
        equal = {}
        for step in self.steps:
            one_window = always_one_window(self.windowings[step.source])
            if isinstance(step, WindowStep):
                if one_window and always_one_window(self.windowings[step.output]):
                    equal[step.output] = step.source
            elif one_window and step.is_one_to_one():
                equal[step.outputs[None]] = step.source
        return equal

    def weak_streams(self, root: bool) -> set[str]:
        """Streams of elements that a function with weak productions made, whatever windows they were put into since.

        `root` says whether what comes in is of such a function.
        """
        weak = {0} if root else set()
        for step in self.steps:
            if isinstance(step, ElementStep):
                weak.update(() if step.fn.strong_productions else step.outputs.values())
            elif step.source in weak:
                weak.add(step.output)
        return {name for leave in self.exits if leave.source in weak for name in (leave.stream, leave.spare) if name}

    def outputs(self) -> list[str]:
        """Every stream that the stage may produce to."""
        return list(dict.fromkeys(name for leave in self.exits for name in (leave.stream, leave.spare) if name))
