"""What: what a column expression computes, as a tree, and how Python computes it for one element."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from keyword import iskeyword
from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.row import Row


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of the element."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A step of an `ItemOf`: what `.name` gives, where a name or number alone is what `[...]` gives."""

    name: str


@dataclass(frozen=True, slots=True)
class ItemOf:
    """What is found in the element by a way of attributes, names and numbers; without any the element itself."""

    way: tuple[str | int | Attribute, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """The same value for all elements."""

    value: object


@dataclass(frozen=True, slots=True)
class FromEngine:
    """What the engine knows of the element: one of the names in `FROM_ENGINE`."""

    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One of `OPERATIONS` on what other nodes give."""

    name: str
    operands: tuple[Node, ...]


Node: TypeAlias = FieldOf | ItemOf | Literal | FromEngine | Operation


class Written(NamedTuple):
    """An operation as source."""

    python: str
    shown: str = ""
    """In labels, if not as in Python."""
    gives: object = None
    """The type of its result; None if that depends on the operands."""


# A walrus may be used twice inside each other: its name is read before anything else is written to it.
OPERATIONS: Mapping[str, Written] = {
    "add": Written("({} + {})"),
    "subtract": Written("({} - {})"),
    "multiply": Written("({} * {})"),
    "divide": Written("({} / {})", "({} ÷ {})"),
    "floor_divide": Written("({} // {})", "({} div {})"),
    "modulo": Written("({} % {})"),
    "negate": Written("(-{})"),
    "absolute": Written("abs({})"),
    "equal": Written("({} == {})", gives=bool),
    "not_equal": Written("({} != {})", gives=bool),
    "less": Written("({} < {})", gives=bool),
    "less_equal": Written("({} <= {})", gives=bool),
    "greater": Written("({} > {})", gives=bool),
    "greater_equal": Written("({} >= {})", gives=bool),
    "and": Written("(True if {} and {} else False)", "({} & {})", bool),
    "or": Written("(True if {} or {} else False)", "({} | {})", bool),
    "not": Written("(not {})", "(~{})", bool),
    "is_null": Written("({} is None)", gives=bool),
    "is_not_null": Written("({} is not None)", gives=bool),
    "fill_null": Written("(x if (x := {}) is not None else {})", "fill_null({}, {})"),
    "isin": Written("({} in {})", gives=bool),
    "lower": Written("{}.lower()", gives=str),
    "upper": Written("{}.upper()", gives=str),
    "strip": Written("{}.strip()", gives=str),
    "startswith": Written("{}.startswith({})", gives=bool),
    "endswith": Written("{}.endswith({})", gives=bool),
    "contains": Written("({1} in {0})", gives=bool),
    "replace": Written("{}.replace({}, {})", gives=str),
    "length": Written("len({})", gives=int),
    "micros": Written("{}.micros", gives=int),
    "cast_int": Written("int({})", gives=int),
    "cast_float": Written("float({})", gives=float),
    "cast_str": Written("str({})", gives=str),
    "cast_bool": Written("bool({})", gives=bool),
}
FROM_ENGINE: Mapping[str, str] = {
    "window_start": "window.start",
    "window_end": "window.end",
    "timestamp": "timestamp",
    "pane_index": "pane.index",
    "pane_timing": "int(pane.timing)",
}
"""Name -> how it is found."""
_SHOWN = (str, int, float, bool, type(None), bytes, Decimal, Timestamp, datetime.date, datetime.timedelta)
"""Literals that are shown in labels as they are: they look the same in every process."""
_LONGEST_SHOWN = 40


def parts(node: Node) -> Iterator[Node]:
    """The nodes of a tree, a node before those that it uses."""
    yield node
    if isinstance(node, Operation):
        for operand in node.operands:
            yield from parts(operand)


def depth(node: Node) -> int:
    """How many parentheses its source has inside each other, at most.

    >>> depth(Operation("add", (FieldOf("delay"), Operation("cast_int", (FieldOf("late"),)))))
    2
    """
    if not isinstance(node, Operation):
        return 0
    return OPERATIONS[node.name].python.count("(") + max(map(depth, node.operands))


class Names(dict[str, object]):
    """What a line of source refers to, by the names in it."""

    def of(self, value: object) -> str:
        """A name for a value."""
        self[name := f"c{len(self)}"] = value
        return name


def compiled(write: Callable[[Names], str]) -> Callable[..., object]:
    """A function of element, window, timestamp and pane: one line of Python, as quick as if the user had written it.

    Args:
        write: Gives the source, in which `e`, `window`, `timestamp` and `pane` are what the function is called with.

    >>> tree = Operation("greater", (FieldOf("delay"), Literal(15)))
    >>> compiled(lambda names: source_of(tree, names))({"delay": 20})
    True
    """
    names = Names(field=field_of, Row=Row)
    source = f"lambda e, window=None, timestamp=None, pane=None: {write(names)}"
    # Names of fields come in as literals or are checked to be nothing but names, all else is written in this package.
    # A plain dict: Python looks names up in others slowly.
    return cast(Callable[..., object], eval(source, dict(names)))


class OneLine:
    """A function of the element that is one line of Python."""

    _function: Callable[..., object] | None = None

    def written(self, names: Names) -> str:
        """The line: an expression in terms of `e`, `window`, `timestamp` and `pane`."""
        raise TypeError(f"{type(self).__name__} does not define written(self, names)")

    def as_function(self) -> Callable[..., object]:
        """The quickest function for it, for loops."""
        if self._function is None:
            self._function = compiled(self.written)
        return self._function


def written(function: object, names: Names) -> str:
    """The source of a function's result for the element: its own line, or a call."""
    if isinstance(function, OneLine):
        return function.written(names)
    given = ", ".join(["e", *(f"{name}={name}" for name in getattr(function, "from_engine", ()))])
    return f"{names.of(function)}({given})"


def source_of(node: Node, names: Names) -> str:
    """The source of a node's value."""
    match node:
        case FieldOf(name):
            attribute = f"e.{name} if e.__class__ is Row else " if _is_attribute(name) else ""
            return f"(e[{name!r}] if e.__class__ is dict else {attribute}field(e, {name!r}))"
        case ItemOf(way):
            return f"e{_way(way)}"
        case Literal(value):
            return names.of(value)
        case FromEngine(name):
            return FROM_ENGINE[name]
        case Operation("isin", (operand, Literal(members))):
            within = names.of(frozenset(cast("tuple[object, ...]", members)))
            return f"({source_of(operand, names)} in {within})"
        case Operation(name, operands):
            return OPERATIONS[name].python.format(*(source_of(operand, names) for operand in operands))


def _way(way: tuple[str | int | Attribute, ...]) -> str:
    return "".join(f".{step.name}" if isinstance(step, Attribute) else f"[{step!r}]" for step in way)


def _is_attribute(name: str) -> bool:
    """Whether source may name it. Beyond ASCII, Python takes some names in source for others."""
    return name.isascii() and name.isidentifier() and not iskeyword(name)


def field_of(element: object, name: str) -> object:
    """A field of a row, named tuple, dataclass, or of a mapping."""
    return element[name] if isinstance(element, Mapping) else getattr(element, name)


def shown(node: Node) -> str:
    """The tree as a person would write it.

    >>> shown(Operation("and", (FieldOf("late"), Operation("isin", (FieldOf("carrier"), Literal(("UA", "AA")))))))
    "late & (carrier in ('UA', 'AA'))"
    """
    text = _shown(node)
    return text[1:-1] if isinstance(node, Operation) and _pattern(node).startswith("(") else text


def _shown(node: Node) -> str:
    match node:
        case FieldOf(name):
            return name
        case ItemOf(way):
            return f"element{_way(way)}"
        case FromEngine(name):
            return f"col.{name}"
        case Literal(value):
            return _shown_literal(value)
        case Operation(_, operands):
            return _pattern(node).format(*map(_shown, operands))


def _pattern(node: Operation) -> str:
    written = OPERATIONS[node.name]
    return written.shown or written.python


def _shown_literal(value: object) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(map(_shown_literal, value))
        return f"({inner})" if len(inner) <= _LONGEST_SHOWN else f"({inner[:_LONGEST_SHOWN]}… {len(value)} values)"
    return repr(value).replace("/", "÷") if type(value) in _SHOWN else type(value).__name__
