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

(The class of the result before is kept because to compare with it is quicker than to look into a set.)

The line at which an exception left the loop says which step raised, and the loop's variables say for which element:
knowing it costs nothing as long as nothing fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FunctionType
from typing import cast

from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import Timestamp
from headrace.sdk.columns.tree import OneLine
from headrace.sdk.fusion.plan import ElementStep, Exit, Form, StagePlan, WindowStep, always_one_window, plain_form
from headrace.sdk.fusion.surroundings import Surroundings
from headrace.sdk.fusion.written import Loop, Place, Variables
from headrace.sdk.panes import PANE_INFO_UNKNOWN
from headrace.sdk.pvalue import TaggedOutput
from headrace.sdk.transforms.element import FilterFn, FunctionDoFn, MapFn
from headrace.sdk.transforms.parameters import Constant, Given, Side, Source
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import TimestampedValue

_DEEPEST = 40
"""Blocks inside each other before the rest becomes a loop of its own: Python allows 100, of which 20 may be loops."""
_DEEPEST_LOOPS = 12
_FLUSH_AT = 50_000
"""Elements that a loop which multiplies its input gathers before it sends them on."""
_SPECIAL = frozenset({TaggedOutput, TimestampedValue, WindowedValue})
_REFUSED = frozenset({str, bytes, dict})


class LoopWriter:
    """Writes the loop for the elements of one collection of a stage that come in one form."""

    def __init__(self, plan: StagePlan, surroundings: Surroundings, filename: str) -> None:
        self._plan = plan
        self._surroundings = surroundings
        self._filename = filename
        self._body: list[tuple[str, Place | None]] = []
        self._depth = 2
        self._loops = 1
        self._widest = 1
        self._bound: dict[str, object] = {"special": _SPECIAL, "Batch": Batch, "_zip": zip, "_len": len}
        self._columns: dict[str, None] = {}
        self._buffers: dict[str, str] = {}
        self._kinds: dict[str, None] = {}
        self._stamped: dict[str, str] = {}
        self._counts: dict[int, None] = {}
        self._uncounted: set[int] = set(plan.as_many_as())
        self._root = 0
        self._only: frozenset[int] | None = None

    def write(self, node: int, form: Form, only: frozenset[int] | None = None) -> Loop:
        """The loop over batches of a collection's elements in a form.

        `only` are places among the collection's readers: the others have the elements already. None for all readers.
        """
        self._root, self._only = node, only
        # Where the side values are matters to the first step alone: to all others its output is in the form FIRED.
        self._uncounted.add(node)
        root_form = Form.FIRED if form is Form.SIDED else form
        self._consumers(Variables(node, "v", root_form, *(() if form is Form.PLAIN else ("w", "p"))))
        lines, places = self._assemble(form)
        scope: dict[str, object] = {}
        exec(compile("\n".join(lines), self._filename, "exec"), self._bound, scope)
        run = cast(FunctionType, scope["loop"])
        readers = self._plan.consumers(node)
        fallback = readers[0][1].label if readers else self._filename
        return Loop(run, self._filename, lines, places, tuple(self._counts), fallback)

    def _assemble(self, form: Form) -> tuple[list[str], dict[int, Place]]:
        """Head, body and end put together."""
        element = {Form.PLAIN: "v", Form.SIDED: "(v, w, p, d)"}.get(form, "(v, w, p)")
        columns = list(self._columns)
        variables = ", ".join([element, "t", *columns])
        sources = ", ".join(["values", "timestamps", *(f"assign{name}(timestamps, values)" for name in columns)])
        # Defaults make locals of what the loop uses: the quickest names there are.
        head = [f"def loop(values, timestamps, emit, {', '.join(f'{name}={name}' for name in self._bound)}):"]
        head += [f"    {buffer}, s{buffer} = [], []" for buffer in (*self._buffers, *self._stamped)]
        head += [f"    {kind} = None" for kind in self._kinds]
        head += [f"    g{node} = 0" for node in self._counts]
        head.append(f"    for {variables} in _zip({sources}):")
        places = {len(head) + 1 + i: place for i, (_, place) in enumerate(self._body) if place is not None}
        body = [text for text, _ in self._body] or ["        pass"]
        end = [f"    emit({stream!r}, Batch({buffer}, s{buffer}))" for buffer, stream in self._buffers.items()]
        end += [f"    {later}({buffer}, s{buffer})" for buffer, later in self._stamped.items()]
        end.append(f"    return ({''.join(f'g{node}, ' for node in self._counts)})")
        return [*head, *body, *self._early_flushes(), *end], places

    def _early_flushes(self) -> list[str]:
        if self._widest == 1:
            return []
        lines = []
        for buffer, stream in self._buffers.items():
            lines.append(f"        if _len({buffer}) >= {_FLUSH_AT}:")
            lines.append(f"            emit({stream!r}, Batch({buffer}, s{buffer}))")
            lines.append(f"            {buffer}, s{buffer} = [], []")
        return lines

    # Lines and names

    def _line(self, text: str, place: Place | None = None) -> None:
        self._body.append(("    " * self._depth + text, place))

    @contextmanager
    def _block(self, head: str, place: Place | None = None) -> Iterator[None]:
        self._line(head, place)
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

    def _tuple(self, row: Variables) -> str:
        """An expression for the tuple of a row's windows."""
        if row.form is Form.FIRED:
            return f"({row.windows},)"
        return row.windows if row.form is Form.WINDOWED else self._assigned(row.node)

    def _assigned(self, node: int) -> str:
        """The column of windows that a collection's windowing gives to the batch's timestamps."""
        column = f"a{node}"
        self._columns[column] = None
        self._bind(f"assign{column}", self._plan.windowings[node].window_fn.assign_all)
        return column

    def _pane(self, row: Variables) -> str:
        """An expression for a row's pane."""
        self._bind("no_pane", PANE_INFO_UNKNOWN)
        return "no_pane" if row.pane == "None" else f"(no_pane if {row.pane} is None else {row.pane})"

    def _is_one(self, row: Variables) -> bool:
        """Whether a row has exactly one window."""
        return row.form is Form.FIRED or (row.form is Form.PLAIN and always_one_window(self._plan.windowings[row.node]))

    # Steps

    def _consumers(self, row: Variables) -> None:
        """Everything that is done with an element of a collection."""
        if self._depth > _DEEPEST or self._loops > _DEEPEST_LOOPS:
            later = self._bind(f"later{row.node}{row.form.value}", self._surroundings.later(row.node, row.form))
            self._line(f"{later}({self._packed(row)}, t)")
            return
        if row.node not in self._uncounted:
            self._counts[row.node] = None
            self._line(f"g{row.node} += 1")
        for place, (number, reader) in enumerate(self._plan.consumers(row.node)):
            if row.node == self._root and self._only is not None and place not in self._only:
                continue
            if isinstance(reader, Exit):
                self._exit(number, reader, row)
            elif isinstance(reader, WindowStep):
                self._window(number, reader, row)
            elif Given.WINDOW in reader.arguments:
                self._each_window(number, reader, row)
            else:
                self._element(number, reader, row, "")

    def _packed(self, row: Variables) -> str:
        return row.value if row.form is Form.PLAIN else f"({row.value}, {row.windows}, {row.pane})"

    def _each_window(self, number: int, step: ElementStep, row: Variables) -> None:
        """A step that looks at the window: it is called once for each."""
        if row.form is Form.FIRED:
            self._element(number, step, row, row.windows)
        elif self._is_one(row):
            self._line(f"w{number} = {self._tuple(row)}[0]")
            self._element(number, step, row, f"w{number}")
        else:
            with self._block(f"for w{number} in {self._tuple(row)}:"):
                fired = replace(row, form=Form.FIRED, windows=f"w{number}")
                self._element(number, step, fired, fired.windows)

    def _element(self, number: int, step: ElementStep, row: Variables, window: str) -> None:
        function: object = step.fn.function if isinstance(step.fn, FunctionDoFn) else step.fn.process
        if isinstance(function, OneLine):
            function = function.as_function()
        call = f"{self._bind(f'f{number}', function)}({self._arguments(step, row, window)})"
        place = Place(step.label, row.value)
        if isinstance(step.fn, FilterFn):
            with self._block(f"if {call}:", place):
                self._outputs(step, row, row.value)
        elif isinstance(step.fn, MapFn):
            self._line(f"r{number} = {call}", place)
            self._result(number, step, row, place)
        else:
            self._many(number, step, row, call, place)

    def _many(self, number: int, step: ElementStep, row: Variables, call: str, place: Place) -> None:
        """A step whose result is an iterable of outputs, or None."""
        self._line(f"m{number} = {call}", place)
        if not isinstance(step.fn, FunctionDoFn):
            self._bind("refused", _REFUSED)
            refuse = self._bind(f"refuse{number}", self._surroundings.refuse(number))
            self._kinds[kind := f"z{number}"] = None
            with self._block(f"if m{number}.__class__ is not {kind} and ({kind} := m{number}.__class__) in refused:"):
                self._line(f"{refuse}(m{number})", place)
        with (
            self._block(f"if m{number} is not None:"),
            self._block(f"for r{number} in m{number}:", place),
        ):
            self._result(number, step, row, place)

    def _result(self, number: int, step: ElementStep, row: Variables, place: Place) -> None:
        """One output of a step, in the variable r: a value, or something that says more than a value."""
        divert = self._bind(f"divert{number}{row.form.value}", self._surroundings.divert(number, row.form))
        windows = "None" if self._is_one(row) and row.form is Form.PLAIN else self._tuple(row)
        result, kind = f"r{number}", f"y{number}{row.form.value}"
        self._kinds[kind] = None
        with self._block(f"if {result}.__class__ is not {kind} and ({kind} := {result}.__class__) in special:"):
            self._line(f"{kind} = None")
            if self._is_plain(step, row):
                self._stamp(number, step, result)
                with self._block("else:"):
                    self._line(f"{divert}({result}, t, {windows}, {row.pane})", place)
            else:
                self._line(f"{divert}({result}, t, {windows}, {row.pane})", place)
        if None in step.outputs:
            with self._block("else:"):
                self._outputs(step, row, result)

    def _is_plain(self, step: ElementStep, row: Variables) -> bool:
        """Whether an output with a timestamp of its own needs nothing more."""
        output = step.outputs.get(None)
        return (
            output is not None
            and row.form is Form.PLAIN
            and self._is_one(row)
            and plain_form(self._plan.windowings[output]) is Form.PLAIN
        )

    def _stamp(self, number: int, step: ElementStep, result: str) -> None:
        """The quick way for what is common: every output has a timestamp of its own."""
        self._bind("stamped", TimestampedValue)
        buffer, later = f"e{number}", f"all_later{number}"
        self._stamped[buffer] = self._bind(later, self._surroundings.all_later(step.outputs[None], Form.PLAIN))
        with self._block(f"if {result}.__class__ is stamped:"):
            self._line(f"{buffer}.append({result}.value)")
            self._line(f"s{buffer}.append({result}.timestamp.micros)")

    def _outputs(self, step: ElementStep, row: Variables, value: str) -> None:
        if None in step.outputs:
            self._consumers(replace(row, node=step.outputs[None], value=value))

    def _arguments(self, step: ElementStep, row: Variables, window: str) -> str:
        spread = "*" if isinstance(step.fn, FunctionDoFn) and step.fn.spread else ""
        positional = [
            (spread if source is Given.ELEMENT else "") + self._argument(source, row, window)
            for source in step.arguments.positional
        ]
        named = [f"{name}={self._argument(source, row, window)}" for name, source in step.arguments.named]
        return ", ".join(positional + named)

    def _argument(self, source: Source, row: Variables, window: str) -> str:
        if isinstance(source, Constant):
            return self._constant(source.value)
        if isinstance(source, Side):
            return f"d[{source.place}]"
        if source is Given.ELEMENT:
            return row.value
        if source is Given.KEY:
            return f"{row.value}[0]"
        if source is Given.WINDOW:
            return window
        if source is Given.PANE:
            return self._pane(row)
        self._bind("timestamp", Timestamp.of_micros)
        if source is Given.TIMESTAMP:
            return "timestamp(t)"
        self._bind("windowed", WindowedValue)
        return f"windowed({row.value}, timestamp(t), {self._tuple(row)}, {self._pane(row)})"

    def _window(self, number: int, step: WindowStep, row: Variables) -> None:
        """New windows from the timestamp, for each window that the element was in."""
        if self._is_one(row):
            window = row.windows if row.form is Form.FIRED else ""
            self._rewindowed(number, step, row, window)
        else:
            with self._block(f"for w{number} in {self._tuple(row)}:"):
                self._rewindowed(number, step, row, f"w{number}")

    def _rewindowed(self, number: int, step: WindowStep, row: Variables, window: str) -> None:
        windowing = self._plan.windowings[step.output]
        form = step.output_form(row.form, windowing)
        if form is Form.PLAIN:
            self._consumers(Variables(step.output, row.value, form))
            return
        before = window or f"{self._tuple(row)}[0]"
        assign = self._bind(f"assign{number}", windowing.window_fn.assign_all)
        place = Place(step.label, row.value)
        self._line(f"n{number} = {assign}((t,), ({row.value},), ({before},))[0]", place)
        pane = "None"
        if step.keeps_retractions:
            pane = f"p{number}"
            its = row.pane
            self._line(f"{pane} = {its} if {its} is not None and {its}.is_retraction else None")
        self._consumers(Variables(step.output, row.value, form, f"n{number}", pane))

    def _exit(self, number: int, leave: Exit, row: Variables) -> None:
        """Append the element to what goes to a stream."""
        form, buffer, stream = leave.form, f"o{number}", leave.stream
        if form is Form.PLAIN and row.form is not Form.PLAIN:
            assert leave.spare is not None, "only a step that chooses windows makes other forms than the stream's"
            form, buffer, stream = Form.WINDOWED, f"q{number}", leave.spare
        self._buffers[buffer] = stream
        value = row.value
        if leave.keyed:
            self._line(f"k{number}, u{number} = {value}", Place(leave.label, value, "pairs (key, value)"))
            if form is Form.WINDOWED:
                value = f"(k{number}, (u{number}, {self._tuple(row)}, {row.pane}))"
            else:
                # A tuple that is there already need not be made again.
                self._bind("pair", tuple)
                value = f"{value} if {value}.__class__ is pair else (k{number}, u{number})"
        elif form is Form.WINDOWED:
            value = f"({value}, {self._tuple(row)}, {row.pane})"
        self._line(f"{buffer}.append({value})")
        self._line(f"s{buffer}.append(t)")
