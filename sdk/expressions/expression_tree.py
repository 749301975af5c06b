"""What: what a column expression computes, as a tree, and how Python computes it for one element."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from keyword import iskeyword
from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.python_private import at_line
from headrace.lowlevel.time import Timestamp
from headrace.sdk.model.row import Row


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of the element."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A step of an `ItemOf`: the attribute `.name`; a plain name or number is the item `[...]`."""

    name: str


@dataclass(frozen=True, slots=True)
class ItemOf:
    """A part of the element at a path of attributes, names and numbers; the element itself if the path is empty."""

    path: tuple[str | int | Attribute, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """The same value for all elements."""

    value: object


@dataclass(frozen=True, slots=True)
class FromEngine:
    """A property of the element known to the engine: one of the names in `FROM_ENGINE`."""

    name: str
    as_attribute: bool = False
    """Whether it is written as an attribute of `col`, so that a field of this name may be meant."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One of `OPERATIONS` on the values of other nodes."""

    name: str
    operands: tuple[Node, ...]


Node: TypeAlias = FieldOf | ItemOf | Literal | FromEngine | Operation


class OperationSource(NamedTuple):
    """The source of an operation."""

    python: str
    label: str = ""
    """The text in labels, if it differs from the source."""
    gives: object = None
    """The type of its result; None if that depends on the operands."""


# A walrus may be used twice inside each other: its name is read before anything else is written to it.
OPERATIONS: Mapping[str, OperationSource] = {
    "add": OperationSource("({} + {})"),
    "subtract": OperationSource("({} - {})"),
    "multiply": OperationSource("({} * {})"),
    "divide": OperationSource("({} / {})", "({} ÷ {})"),
    "floor_divide": OperationSource("({} // {})", "({} div {})"),
    "modulo": OperationSource("({} % {})"),
    "negate": OperationSource("(-{})"),
    "absolute": OperationSource("abs({})"),
    "equal": OperationSource("({} == {})", gives=bool),
    "not_equal": OperationSource("({} != {})", gives=bool),
    "less": OperationSource("({} < {})", gives=bool),
    "less_equal": OperationSource("({} <= {})", gives=bool),
    "greater": OperationSource("({} > {})", gives=bool),
    "greater_equal": OperationSource("({} >= {})", gives=bool),
    "and": OperationSource("(True if {} and {} else False)", "({} & {})", bool),
    "or": OperationSource("(True if {} or {} else False)", "({} | {})", bool),
    "not": OperationSource("(not {})", "(~{})", bool),
    "if_else": OperationSource("({1} if {0} else {2})"),
    "is_null": OperationSource("({} is None)", gives=bool),
    "is_not_null": OperationSource("({} is not None)", gives=bool),
    "fill_null": OperationSource("(x if (x := {}) is not None else {})", "fill_null({}, {})"),
    "isin": OperationSource("({} in {})", gives=bool),
    "lower": OperationSource("{}.lower()", gives=str),
    "upper": OperationSource("{}.upper()", gives=str),
    "strip": OperationSource("{}.strip()", gives=str),
    "startswith": OperationSource("{}.startswith({})", gives=bool),
    "endswith": OperationSource("{}.endswith({})", gives=bool),
    "contains": OperationSource("({1} in {0})", gives=bool),
    "replace": OperationSource("{}.replace({}, {})", gives=str),
    "length": OperationSource("len({})", gives=int),
    "micros": OperationSource("{}.micros", gives=int),
    "timestamp": OperationSource("{}.timestamp()", gives=float),
    "date": OperationSource("{}.date()"),
    "weekday": OperationSource("{}.weekday()", gives=int),
    "cast_int": OperationSource("int({})", gives=int),
    "cast_float": OperationSource("float({})", gives=float),
    "cast_str": OperationSource("str({})", gives=str),
    "cast_bool": OperationSource("bool({})", gives=bool),
}
FROM_ENGINE: Mapping[str, str] = {
    "window_start": "window.start",
    "window_end": "window.end",
    "timestamp": "timestamp",
    "pane_index": "pane.index",
    "pane_timing": "int(pane.timing)",
}
"""Name -> the source of its value."""
ENGINE_FUNCTIONS: Mapping[str, str] = {name: name for name in FROM_ENGINE} | {"timestamp": "event_time"}
"""Name -> the function in `headrace` that makes it."""
_SHOWN = (str, int, float, bool, type(None), bytes, Decimal, Timestamp, datetime.date, datetime.timedelta)
"""Types of literals whose `repr` is used in labels, as it is the same in every process."""
_LONGEST_SHOWN = 40


def parts(node: Node) -> Iterator[Node]:
    """The nodes of a tree, a node before those that it uses."""
    yield node
    if isinstance(node, Operation):
        for operand in node.operands:
            yield from parts(operand)


def depth(node: Node) -> int:
    """The greatest depth of parentheses in its source.

    >>> depth(Operation("add", (FieldOf("delay"), Operation("cast_int", (FieldOf("late"),)))))
    2
    """
    if not isinstance(node, Operation):
        return 0
    return OPERATIONS[node.name].python.count("(") + max(map(depth, node.operands))


class Names(dict[str, object]):
    """The values that a line of source refers to, by name."""

    def of(self, value: object) -> str:
        """A new name for a value."""
        self[name := f"c{len(self)}"] = value
        return name


COLUMN_EXPRESSION = "column expression"
"""What tracebacks call the function of a column expression."""


def compiled(write: Callable[[Names], str], line: tuple[str, int] | None = None) -> Callable[..., object]:
    """A function of element, window, timestamp and pane, compiled from one line of Python.

    Args:
        write: Returns the source, in terms of `e`, `window`, `timestamp` and `pane`.
        line: File and number of the line of the program in which tracebacks show the function.

    >>> tree = Operation("greater", (FieldOf("delay"), Literal(15)))
    >>> compiled(lambda names: source_of(tree, names))({"delay": 20})
    True
    """
    names = Names(field=field_of, sure=require_no_field, Row=Row)
    source = f"lambda e, window=None, timestamp=None, pane=None: {write(names)}"
    # Names of fields are literals, or checked to be identifiers; everything else is written in this package.
    # A plain dict, as Python looks names up more slowly in a subclass.
    code = compile(source, "<string>", "eval")
    code = code if line is None else at_line(code, *line, COLUMN_EXPRESSION)
    return cast(Callable[..., object], eval(code, dict(names)))


class OneLine:
    """A function of the element that can be written as one line of Python."""

    _function: Callable[..., object] | None = None
    _line: tuple[str, int] | None = None
    """File and number of the line of the program that made it, for tracebacks."""

    def written(self, names: Names) -> str:
        """The line: an expression in terms of `e`, `window`, `timestamp` and `pane`."""
        raise TypeError(f"{type(self).__name__} does not define written(self, names)")

    def as_function(self) -> Callable[..., object]:
        """The compiled function, for loops."""
        if self._function is None:
            self._function = compiled(self.written, self._line)
        return self._function


def written(function: object, names: Names) -> str:
    """The source of a function's result for the element: its own line of Python, or a call."""
    if isinstance(function, OneLine):
        return function.written(names)
    arguments = ", ".join(["e", *(f"{name}={name}" for name in getattr(function, "from_engine", ()))])
    return f"{names.of(function)}({arguments})"


def source_of(node: Node, names: Names) -> str:
    """The source of a node's value."""
    match node:
        case FieldOf(name):
            attribute = f"e.{name} if e.__class__ is Row else " if _is_attribute(name) else ""
            return f"(e[{name!r}] if e.__class__ is dict else {attribute}field(e, {name!r}))"
        case ItemOf(path):
            return f"e{_path_source(path)}"
        case Literal(value):
            return names.of(value)
        case FromEngine(name, as_attribute):
            return f"(sure(e, {name!r}) or {FROM_ENGINE[name]})" if as_attribute else FROM_ENGINE[name]
        case Operation("isin", (operand, Literal(members))):
            within = names.of(frozenset(cast("tuple[object, ...]", members)))
            return f"({source_of(operand, names)} in {within})"
        case Operation(name, operands):
            return OPERATIONS[name].python.format(*(source_of(operand, names) for operand in operands))


def _path_source(path: tuple[str | int | Attribute, ...]) -> str:
    return "".join(f".{step.name}" if isinstance(step, Attribute) else f"[{step!r}]" for step in path)


def _is_attribute(name: str) -> bool:
    """Whether source can name an attribute. Python normalizes identifiers that are not ASCII."""
    return name.isascii() and name.isidentifier() and not iskeyword(name)


def field_of(element: object, name: str) -> object:
    """A field of a row, named tuple, dataclass, or of a mapping."""
    return element[name] if isinstance(element, Mapping) else getattr(element, name)


def require_no_field(element: object, name: str) -> None:
    """Raise TypeError if the element has a field with the name of one of the engine's values."""
    if name in element if isinstance(element, Mapping) else _has_field(element, name):
        raise TypeError(ambiguity(name))


def _has_field(element: object, name: str) -> bool:
    found = getattr(element, name, None)
    return found is not None and not callable(found)


def ambiguity(name: str) -> str:
    """The message for an attribute of `col` that may be the engine's value or a field."""
    return (
        f"col.{name} is not clear, as the elements have a field {name!r}; write col({name!r}) for the field, "
        f"headrace.{ENGINE_FUNCTIONS[name]}() for what the engine knows"
    )


def expression_text(node: Node) -> str:
    """A tree as text for labels and messages.

    >>> of_two = Operation("isin", (FieldOf("carrier"), Literal(("UA", "AA"))))
    >>> expression_text(Operation("and", (FieldOf("late"), of_two)))
    "late & (carrier in ('UA', 'AA'))"
    """
    text = _node_text(node)
    return text[1:-1] if isinstance(node, Operation) and _pattern(node).startswith("(") else text


def _node_text(node: Node) -> str:
    match node:
        case FieldOf(name):
            return name
        case ItemOf(path):
            return f"element{_path_source(path)}"
        case FromEngine(name, as_attribute):
            return f"col.{name}" if as_attribute else f"{ENGINE_FUNCTIONS[name]}()"
        case Literal(value):
            return _literal_text(value)
        case Operation(_, operands):
            return _pattern(node).format(*map(_node_text, operands))


def _pattern(node: Operation) -> str:
    written = OPERATIONS[node.name]
    return written.label or written.python


def _literal_text(value: object) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(map(_literal_text, value))
        return f"({inner})" if len(inner) <= _LONGEST_SHOWN else f"({inner[:_LONGEST_SHOWN]}… {len(value)} values)"
    return repr(value).replace("/", "÷") if type(value) in _SHOWN else type(value).__name__
