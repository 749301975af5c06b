"""Writes the loop of a fused stage as Python source: one pass over a batch, no object per element but the user's own.

For `Filter(p) | Map(f)` before a grouping it writes, in essence:

    for v, t in zip(values, timestamps):
        if f0(v):
            r1 = f1(v)
            if r1.__class__ is not y1 and (y1 := r1.__class__) in special:
                divert1(r1, t, None, None)
            else:
                o0.append(r1)
                s0.append(t)

(`y1` is the class of the previous result: comparing with one class is quicker than looking into a set.)

`tests/golden/generated_loops.md` shows whole loops. Composed closures take 1.2 to 2.4 times the processor time of such
a loop, one plain loop for each step 1.1 to 1.45 times (`benchmarks/stage_loops.py`; both without what they would need
for timestamps, windows, several readers and the place of an error). The low figures are those of functions that take
microseconds, such as `json.loads`. Whole runs of ten cheap steps on Spark take 1.3 to 1.5 times as long with closures.

When user code raises, the line at which the exception left the loop tells the step, and the loop's variables hold the
element. So nothing has to be recorded while nothing fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType, FunctionType
from typing import Protocol, cast

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import Timestamp
from headrace.sdk.expressions.expression_tree import OneLine
from headrace.sdk.functions.arguments import Constant, Converted, Given, Side, Source
from headrace.sdk.functions.do_fn import FilterFn, FunctionDoFn, MapFn
from headrace.sdk.model.element_form import ElementForm, always_one_window, plain_form
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN
from headrace.sdk.model.special_outputs import NO_OUTPUTS, SPECIAL, STAMPED, WindowedValue, require_outputs
from headrace.sdk.operators.fusion.stage_plan import ElementStep, Exit, StagePlan, WindowStep

_DEEPEST = 40
"""Nested blocks from which on steps get a loop of their own; Python allows 100 blocks, of which 20 may be loops."""
_DEEPEST_LOOPS = 12
"""Nested loops from which on steps get a loop of their own."""
_FLUSH_AT = 50_000
"""Elements that a loop with inner loops gathers for a stream before it sends them on."""


@dataclass(frozen=True, slots=True)
class Variables:
    """The names of the variables that hold an element of a collection at one line of the loop."""

    node: int
    """Number of the collection."""
    value: str
    form: ElementForm
    windows: str = ""
    """The variable of the element's window (form FIRED) or of its tuple of windows (form WINDOWED)."""
    pane: str = "None"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The step that a line of the loop belongs to."""

    label: str
    """Label of the step."""
    variable: str
    """Name of the variable that holds the element which the step takes."""
    expects: str | None = None
    """Which elements the step takes, if the line checks that; None for a line that calls user code."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled loop, with its source for tracebacks and error messages."""

    run: FunctionType
    """Takes values, their timestamps (equally many, microseconds UTC) and an `Emit`.

    Returns a tuple: the number of elements of each collection of `counts`.
    """
    filename: str
    lines: list[str]
    source_lines: dict[int, SourceLine]
    """Line number (from 1) -> the step of that line."""
    counts: tuple[int, ...]
    """The collections whose elements `run` counts."""
    fallback: str
    """Label for errors in lines that belong to no step: those that assign windows."""
    _steps: dict[int, str] = field(default_factory=dict)
    """Offset of an instruction -> label of its step, for the offsets looked up so far."""

    def current_step(self, frame: FrameType | None = None) -> str:
        """The label of the step that is running; to be called from code that the loop calls, or with its frame."""
        code = self.run.__code__
        frame = frame or sys._getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        if frame is None:
            return self.fallback
        # Finding the line of an instruction takes time proportional to the length of the code, a look-up does not.
        step = self._steps.get(frame.f_lasti)
        if step is None:
            line = self.source_lines.get(frame.f_lineno)
            step = self._steps[frame.f_lasti] = line.label if line is not None else self.fallback
        return step


class LoopCallbacks(Protocol):
    """Makes the functions that a generated loop calls for elements which it does not handle itself."""

    def divert(self, number: int, form: ElementForm) -> Callable[..., None]:
        """For results of step `number` with a tag, timestamp or windows of their own.

        The function takes (result, timestamp, windows, pane) with timestamp, windows and pane of the input.
        """

    def later(self, node: int, form: ElementForm) -> Callable[..., None]:
        """For elements of a collection that a later loop takes; the function takes (value in its form, timestamp)."""

    def all_later(self, node: int, form: ElementForm) -> Callable[..., None]:
        """As `later`, for many elements; the function takes (values in their form, timestamps), equally long lists."""


class LoopWriter:
    """Writes the loop for the elements of one collection of a stage in one form."""

    def __init__(self, plan: StagePlan, callbacks: LoopCallbacks, filename: str) -> None:
        self._plan = plan
        self._callbacks = callbacks
        self._filename = filename
        self._body: list[tuple[str, SourceLine | None]] = []
        self._depth = 2
        self._loops = 1
        self._widest = 1
        self._bound: dict[str, object] = {"special": SPECIAL, "Batch": Batch}
        self._columns: dict[str, None] = {}
        self._buffers: dict[str, str] = {}
        self._kinds: dict[str, None] = {}
        self._stamped: dict[str, str] = {}
        self._counts: dict[int, None] = {}
        self._uncounted: set[int] = set(plan.as_many_as())
        self._root = 0
        self._only: frozenset[int] | None = None

    def write(self, node: int, form: ElementForm, only: frozenset[int] | None = None) -> Loop:
        """Write and compile the loop over batches of a collection's elements in a form.

        `only` are indices into `StagePlan.consumers(node)`: the readers that get the elements; None for all readers.
        """
        self._root, self._only = node, only
        # Only the first step takes the side values; its output has the form FIRED.
        self._uncounted.add(node)
        root_form = ElementForm.FIRED if form is ElementForm.SIDED else form
        self._consumers(Variables(node, "v", root_form, *(() if form is ElementForm.PLAIN else ("w", "p"))))
        lines, source_lines = self._assemble(form)
        exec(compile("\n".join(lines), self._filename, "exec"), self._bound)
        run = cast(FunctionType, self._bound.pop("loop"))
        readers = self._plan.consumers(node)
        fallback = readers[0][1].label if readers else self._filename
        return Loop(run, self._filename, lines, source_lines, tuple(self._counts), fallback)

    def _assemble(self, form: ElementForm) -> tuple[list[str], dict[int, SourceLine]]:
        """The lines of the function: head, body and end; and by line number the steps that they belong to."""
        target = {ElementForm.PLAIN: "v", ElementForm.SIDED: "(v, w, p, d)"}.get(form, "(v, w, p)")
        columns = list(self._columns)
        variables = ", ".join([target, "t", *columns])
        sources = ", ".join(["values", "timestamps", *(f"assign{name}(timestamps, values)" for name in columns)])
        head = ["def loop(values, timestamps, emit):"]
        head += [f"    {buffer}, s{buffer} = [], []" for buffer in (*self._buffers, *self._stamped)]
        head += [f"    {kind} = None" for kind in self._kinds]
        head += [f"    g{node} = 0" for node in self._counts]
        head.append(f"    for {variables} in zip({sources}):")
        source_lines = {len(head) + 1 + i: line for i, (_, line) in enumerate(self._body) if line is not None}
        body = [text for text, _ in self._body] or ["        pass"]
        end = [f"    emit({stream!r}, Batch({buffer}, s{buffer}))" for buffer, stream in self._buffers.items()]
        end += [f"    {later}({buffer}, s{buffer})" for buffer, later in self._stamped.items()]
        end.append(f"    return ({''.join(f'g{node}, ' for node in self._counts)})")
        return [*head, *body, *self._early_flushes(), *end], source_lines

    def _early_flushes(self) -> list[str]:
        if self._widest == 1:
            return []
        lines = []
        for buffer, stream in self._buffers.items():
            lines.append(f"        if len({buffer}) >= {_FLUSH_AT}:")
            lines.append(f"            emit({stream!r}, Batch({buffer}, s{buffer}))")
            lines.append(f"            {buffer}, s{buffer} = [], []")
        return lines

    # Lines and names

    def _line(self, text: str, source_line: SourceLine | None = None) -> None:
        self._body.append(("    " * self._depth + text, source_line))

    @contextmanager
    def _block(self, head: str, source_line: SourceLine | None = None) -> Iterator[None]:
        self._line(head, source_line)
        is_loop = head.startswith("for ")
        self._depth += 1
        self._loops += is_loop
        self._widest = max(self._widest, self._loops)
        before = len(self._body)
        yield
        if len(self._body) == before:
            self._line("pass")
        self._depth -= 1
        self._loops -= is_loop

    def _bind(self, name: str, value: object) -> str:
        self._bound[name] = value
        return name

    def _constant(self, value: object) -> str:
        return self._bind(f"c{len(self._bound)}", value)

    # Windows

    def _tuple(self, element: Variables) -> str:
        """An expression for the tuple of an element's windows."""
        if element.form is ElementForm.FIRED:
            return f"({element.windows},)"
        return element.windows if element.form is ElementForm.WINDOWED else self._assigned(element.node)

    def _assigned(self, node: int) -> str:
        """The variable of the windows that a collection's windowing assigns to the element."""
        column = f"a{node}"
        self._columns[column] = None
        self._bind(f"assign{column}", self._plan.windowings[node].window_fn.assign_all)
        return column

    def _pane(self, element: Variables) -> str:
        """An expression for an element's pane."""
        self._bind("no_pane", PANE_INFO_UNKNOWN)
        return "no_pane" if element.pane == "None" else f"(no_pane if {element.pane} is None else {element.pane})"

    def _has_one_window(self, element: Variables) -> bool:
        """Whether an element is known to have exactly one window."""
        return element.form is ElementForm.FIRED or (
            element.form is ElementForm.PLAIN and always_one_window(self._plan.windowings[element.node])
        )

    # Steps

    def _consumers(self, element: Variables) -> None:
        """Write all that is done with an element of a collection."""
        if self._depth > _DEEPEST or self._loops > _DEEPEST_LOOPS:
            node, form = element.node, element.form
            later = self._bind(f"later{node}{form.value}", self._callbacks.later(node, form))
            self._line(f"{later}({self._packed(element)}, t)")
            return
        if element.node not in self._uncounted:
            self._counts[element.node] = None
            self._line(f"g{element.node} += 1")
        for index, (number, reader) in enumerate(self._plan.consumers(element.node)):
            if element.node == self._root and self._only is not None and index not in self._only:
                continue
            if isinstance(reader, Exit):
                self._exit(number, reader, element)
            elif isinstance(reader, WindowStep):
                self._window(number, reader, element)
            elif Given.WINDOW in reader.arguments:
                self._each_window(number, reader, element)
            else:
                self._element(number, reader, element, "")

    def _packed(self, element: Variables) -> str:
        plain = element.form is ElementForm.PLAIN
        return element.value if plain else f"({element.value}, {element.windows}, {element.pane})"

    def _each_window(self, number: int, step: ElementStep, element: Variables) -> None:
        """Write a step that takes the window: the step is called once for each window of an element."""
        if element.form is ElementForm.FIRED:
            self._element(number, step, element, element.windows)
        elif self._has_one_window(element):
            self._line(f"w{number} = {self._tuple(element)}[0]")
            self._element(number, step, element, f"w{number}")
        else:
            with self._block(f"for w{number} in {self._tuple(element)}:"):
                fired = replace(element, form=ElementForm.FIRED, windows=f"w{number}")
                self._element(number, step, fired, fired.windows)

    def _element(self, number: int, step: ElementStep, element: Variables, window: str) -> None:
        function: object = step.fn.function if isinstance(step.fn, FunctionDoFn) else step.fn.process
        if isinstance(function, OneLine):
            function = function.as_function()
        call = f"{self._bind(f'f{number}', function)}({self._arguments(step, element, window)})"
        source_line = SourceLine(step.label, element.value)
        if isinstance(step.fn, FilterFn):
            with self._block(f"if {call}:", source_line):
                self._outputs(step, element, element.value)
        elif isinstance(step.fn, MapFn):
            self._line(f"r{number} = {call}", source_line)
            self._result(number, step, element, source_line)
        else:
            self._many(number, step, element, call, source_line)

    def _many(self, number: int, step: ElementStep, element: Variables, call: str, source_line: SourceLine) -> None:
        """Write a step whose result is an iterable of outputs, or None."""
        self._line(f"m{number} = {call}", source_line)
        if not isinstance(step.fn, FunctionDoFn):
            refused, refuse = self._bind("refused", NO_OUTPUTS), self._bind("refuse", require_outputs)
            self._kinds[kind := f"z{number}"] = None
            with self._block(f"if m{number}.__class__ is not {kind} and ({kind} := m{number}.__class__) in {refused}:"):
                self._line(f"{refuse}(m{number})", source_line)
        with (
            self._block(f"if m{number} is not None:"),
            self._block(f"for r{number} in m{number}:", source_line),
        ):
            self._result(number, step, element, source_line)

    def _result(self, number: int, step: ElementStep, element: Variables, source_line: SourceLine) -> None:
        """Write what is done with an output in variable r: a value, or an object with a tag, timestamp or windows."""
        divert = self._bind(f"divert{number}{element.form.value}", self._callbacks.divert(number, element.form))
        derived = element.form is ElementForm.PLAIN and self._has_one_window(element)
        windows = "None" if derived else self._tuple(element)
        result, kind = f"r{number}", f"y{number}{element.form.value}"
        self._kinds[kind] = None
        with self._block(f"if {result}.__class__ is not {kind} and ({kind} := {result}.__class__) in special:"):
            self._line(f"{kind} = None")
            if self._only_stamped(step, element):
                self._stamp(number, step, result)
                with self._block("else:"):
                    self._line(f"{divert}({result}, t, {windows}, {element.pane})", source_line)
            else:
                self._line(f"{divert}({result}, t, {windows}, {element.pane})", source_line)
        if None in step.outputs:
            with self._block("else:"):
                self._outputs(step, element, result)

    def _only_stamped(self, step: ElementStep, element: Variables) -> bool:
        """Whether a `TimestampedValue` as output of a step goes on in the form PLAIN: with value and timestamp only."""
        output = step.outputs.get(None)
        return (
            output is not None
            and element.form is ElementForm.PLAIN
            and self._has_one_window(element)
            and plain_form(self._plan.windowings[output]) is ElementForm.PLAIN
        )

    def _stamp(self, number: int, step: ElementStep, result: str) -> None:
        """Write the quick path for outputs that are values with a timestamp: append both to a buffer."""
        self._bind("stamped", STAMPED)
        buffer, later = f"e{number}", f"all_later{number}"
        self._stamped[buffer] = self._bind(later, self._callbacks.all_later(step.outputs[None], ElementForm.PLAIN))
        with self._block(f"if {result}.__class__ in stamped:"):
            self._line(f"{buffer}.append({result}.value)")
            self._line(f"s{buffer}.append({result}.timestamp.micros)")

    def _outputs(self, step: ElementStep, element: Variables, value: str) -> None:
        if None in step.outputs:
            self._consumers(replace(element, node=step.outputs[None], value=value))

    def _arguments(self, step: ElementStep, element: Variables, window: str) -> str:
        spread = "*" if isinstance(step.fn, FunctionDoFn) and step.fn.spread else ""
        positional = [
            (spread if source is Given.ELEMENT else "") + self._argument(source, element, window)
            for source in step.arguments.positional
        ]
        named = [f"{name}={self._argument(source, element, window)}" for name, source in step.arguments.named]
        return ", ".join(positional + named)

    def _argument(self, source: Source, element: Variables, window: str) -> str:
        if isinstance(source, Constant):
            return self._constant(source.value)
        if isinstance(source, Converted):
            return f"{self._constant(source.convert)}({self._argument(source.source, element, window)})"
        if isinstance(source, Side):
            return f"d[{source.index}]"
        if source is Given.ELEMENT:
            return element.value
        if source is Given.KEY:
            return f"{element.value}[0]"
        if source is Given.WINDOW:
            return window
        if source is Given.PANE:
            return self._pane(element)
        if source is Given.CAUSED_BY_DRAIN:
            return f"{self._pane(element)}.caused_by_drain"
        self._bind("timestamp", Timestamp.of_micros)
        if source is Given.TIMESTAMP:
            return "timestamp(t)"
        self._bind("windowed", WindowedValue)
        return f"windowed({element.value}, timestamp(t), {self._tuple(element)}, {self._pane(element)})"

    def _window(self, number: int, step: WindowStep, element: Variables) -> None:
        """Write a `WindowInto`: new windows from the timestamp, once for each window that the element was in."""
        if self._has_one_window(element):
            window = element.windows if element.form is ElementForm.FIRED else ""
            self._rewindowed(number, step, element, window)
        else:
            with self._block(f"for w{number} in {self._tuple(element)}:"):
                self._rewindowed(number, step, element, f"w{number}")

    def _rewindowed(self, number: int, step: WindowStep, element: Variables, window: str) -> None:
        windowing = self._plan.windowings[step.output]
        form = step.output_form(element.form, windowing)
        if form is ElementForm.PLAIN:
            self._consumers(Variables(step.output, element.value, form))
            return
        before = window or f"{self._tuple(element)}[0]"
        assign = self._bind(f"assign{number}", windowing.window_fn.assign_all)
        source_line = SourceLine(step.label, element.value)
        self._line(f"n{number} = {assign}((t,), ({element.value},), ({before},))[0]", source_line)
        pane = "None"
        if step.keeps_retractions:
            pane = f"p{number}"
            previous = element.pane
            self._line(f"{pane} = {previous} if {previous} is not None and {previous}.is_retraction else None")
        self._consumers(Variables(step.output, element.value, form, f"n{number}", pane))

    def _exit(self, number: int, exit_: Exit, element: Variables) -> None:
        """Write that an element is appended to the buffer of a stream."""
        form, buffer, stream = exit_.form, f"o{number}", exit_.stream
        if form is ElementForm.PLAIN and element.form is not ElementForm.PLAIN:
            assert exit_.spare is not None, "a plain stream has a spare one where elements come in other forms"
            form, buffer, stream = ElementForm.WINDOWED, f"q{number}", exit_.spare
        self._buffers[buffer] = stream
        value = element.value
        if exit_.keyed:
            self._line(f"k{number}, u{number} = {value}", SourceLine(exit_.label, value, "pairs (key, value)"))
            if form is ElementForm.WINDOWED:
                value = f"(k{number}, (u{number}, {self._tuple(element)}, {element.pane}))"
            else:
                # An exact tuple goes on as the same object.
                self._bind("pair", tuple)
                value = f"{value} if {value}.__class__ is pair else (k{number}, u{number})"
        elif form is ElementForm.WINDOWED:
            value = f"({value}, {self._tuple(element)}, {element.pane})"
        self._line(f"{buffer}.append({value})")
        self._line(f"s{buffer}.append(t)")
