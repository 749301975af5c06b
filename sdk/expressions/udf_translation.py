"""What: functions of the user's that the engine sees through, as they do nothing that columns cannot do.

`lambda row: (row["key"], row["value"])` takes two columns and makes pairs of them. Where elements come as columns it
need not be called for any of them: what it returns is read from its syntax tree, and computed as a column expression
is, with the same results or not at all.
"""

from __future__ import annotations

import ast
import builtins
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TypeAlias, cast

import pyarrow as pa

from headrace.lowlevel.columns import Shape
from headrace.sdk.columns.shape import Fields, FieldsKind, Instant, Single, Tuple
from headrace.sdk.columns.tree import Attribute, FromEngine, ItemOf, Literal, Node, Operation
from headrace.sdk.columns.view import Unable, View
from headrace.sdk.source import returned_by, tree_of
from headrace.sdk.transforms.parameters import Arguments, Given


@dataclass(frozen=True, slots=True)
class Made:
    """A tuple, or a dict if it has names, of other values."""

    values: tuple[Value, ...]
    names: tuple[str, ...] | None = None


Value: TypeAlias = Node | Made


@dataclass(frozen=True, slots=True)
class Seen:
    """What a function returns for an element; a function on columns, which nobody calls for an element."""

    value: Value
    spread: int | None = None
    """How many items an element is spread over, None if it is not."""
    names: tuple[tuple[str, object], ...] = ()
    """The global names in its source, with what they meant when it was read."""

    def is_still(self, function: object) -> bool:
        """Whether it is what the function returns: global names may have been given other meanings since."""
        return isinstance(function, FunctionType) and all(_meaning(function, name) is its for name, its in self.names)

    def node(self) -> Node | None:
        """What it returns, if that is one value."""
        return None if isinstance(self.value, Made) else self.value

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        self.check_width(view)
        shape = _shape_of(self.value, view)
        _refuse_shared(self.value, view)
        return shape

    def check_width(self, view: View) -> None:
        """Raise `Unable` for elements that cannot be spread over the parameters."""
        if self.spread is not None and len(view.items(view.shape)) != self.spread:
            raise Unable("the function has another number of parameters than elements have items")

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


def _shape_of(value: Value, view: View) -> Shape:
    if isinstance(value, Made):
        shapes = tuple(_shape_of(each, view) for each in value.values)
        return Tuple(shapes) if value.names is None else Fields(value.names, shapes, FieldsKind.DICT)
    if value == Literal(None):
        return view.nothing()
    # Arrow's functions take a tenth of a second to load, which a program without columns need not wait for.
    from headrace.sdk.columns.vectors import shape_of

    return shape_of(value, view)


def _refuse_shared(value: Value, view: View) -> None:
    """Raise `Unable` where two parts of the result are one object that can be changed: columns would make two of it."""
    from headrace.sdk.columns.vectors import item

    taken: set[int] = set()
    for each in _items(value):
        shape = item(view.shape, each)
        if not isinstance(shape, (Single, Instant)) or pa.types.is_nested(view.column(shape).type):
            if taken.intersection(shape.columns()):
                raise Unable("two parts of what the function returns are the same object")
            taken.update(shape.columns())


def _items(value: Value) -> Iterator[ItemOf]:
    if isinstance(value, ItemOf):
        yield value
    elif isinstance(value, Made):
        for each in value.values:
            yield from _items(each)


def seen_through(function: object, arguments: Arguments, spread: bool = False, as_truth: bool = False) -> Seen | None:
    """What a function returns, if its source says so; None if only calling it can tell.

    Args:
        function: Plain Python with one `return`, of items and attributes of its parameters, tuples and dicts made of
            them, arithmetic, comparisons and a few functions and methods.
        arguments: What its parameters get.
        spread: Whether the element is spread over the first of them.
        as_truth: Whether only the truth of the result matters.
    """
    found = _looked_at(function, arguments, spread, as_truth)
    return found if isinstance(found, Seen) else None


def why_called(function: object, arguments: Arguments, spread: bool = False, as_truth: bool = False) -> str | None:
    """Why a function is called for each element, for its author; None if it is seen through. As `seen_through`.

    >>> why_called(print, Arguments((Given.ELEMENT,)))
    'there is no Python source of it to look into'
    """
    found = _looked_at(function, arguments, spread, as_truth)
    return found if isinstance(found, str) else None


def _looked_at(function: object, arguments: Arguments, spread: bool, as_truth: bool) -> Seen | str:
    tree = tree_of(function)
    if tree is None:
        return "there is no Python source of it to look into"
    if (returned := returned_by(tree)) is None:
        return "it is more than one returned expression"
    if _is_too_deep(returned):
        return f"it is more than {_DEEPEST} levels deep"
    given = _given(tree.args, arguments, spread)
    if given is None:
        return "its parameters are more than the element, its timestamp, window and pane"
    reading = _Reading(given, cast(FunctionType, function))
    try:
        value = reading.truth(returned) if as_truth else reading.value(returned)
    except _Unread as unread:
        return f"columns cannot do {_shown(unread.tree)}"
    width = sum(isinstance(each, ItemOf) for each in given.values()) if spread else None
    return "it returns a constant" if isinstance(value, Literal) else Seen(value, width, tuple(reading.names.items()))


def _shown(tree: ast.AST) -> str:
    try:
        text = ast.unparse(tree)
    except ValueError:
        # Python before 3.12 cannot write each f-string down again that it reads.
        return type(tree).__name__
    return f"`{text.encode(errors='backslashreplace').decode():.60}`"


def _given(parameters: ast.arguments, arguments: Arguments, spread: bool) -> Mapping[str, Value | Given] | None:
    """What each parameter stands for; None if that cannot be told."""
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
        return None
    names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
    named = dict(arguments.named)
    sources: Sequence[object] = arguments.positional
    given: dict[str, Value | Given] = {}
    if spread:
        items = [name for name in names if name not in named]
        given |= {name: ItemOf((number,)) for number, name in enumerate(items)}
        if names[: len(items)] != items or parameters.defaults[: -len(named) or None] or len(sources) != 1:
            return None
        sources = ()
    for name, source in (*zip(names, sources, strict=False), *named.items()):
        if not isinstance(source, Given) or name not in names:
            return None
        given[name] = ItemOf(()) if source is Given.ELEMENT else source
    return given if len(given) == len(names) else None


class _Unread(Exception):
    """Something in the source is nothing that columns do."""

    def __init__(self, tree: ast.expr) -> None:
        super().__init__(tree)
        self.tree = tree


def _is_too_deep(tree: ast.AST) -> bool:
    """Whether an expression is too deep for functions that call themselves: to read, pickle and compute it."""
    level = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def _meaning(function: FunctionType, name: str) -> object:
    """What a global name means in a function now; None if nothing, or None."""
    scope = function.__globals__
    own = scope.get("__builtins__", builtins)
    return scope.get(name, (own if isinstance(own, dict) else vars(own)).get(name))


_FROM_ENGINE = {
    (Given.WINDOW, "start"): "window_start",
    (Given.WINDOW, "end"): "window_end",
    (Given.PANE, "index"): "pane_index",
}
_ARITHMETIC: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "modulo",
}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_CALLS = {"int": "cast_int", "float": "cast_float", "str": "cast_str", "len": "length", "abs": "absolute"}
_METHODS = {"lower": 0, "upper": 0, "strip": 0, "startswith": 1, "endswith": 1, "replace": 2}
_CONSTANTS = (str, int, float, bool)
_DEEPEST = 60
"""Levels of a syntax tree; Python stops at a thousand calls inside each other, of which a level may take several."""


class _Reading:
    """Reads expressions of a function's source."""

    def __init__(self, given: Mapping[str, Value | Given], function: FunctionType) -> None:
        self._given, self._function = given, function
        self.names: dict[str, object] = {}
        """The global names that were read, with their meanings."""

    def value(self, tree: ast.expr) -> Value:
        """What an expression gives. Raises `_Unread`."""
        if isinstance(tree, ast.Tuple) and tree.elts:
            return Made(tuple(map(self.value, tree.elts)))
        if isinstance(tree, ast.Dict) and tree.keys:
            names = [each.value for each in tree.keys if isinstance(each, ast.Constant) and type(each.value) is str]
            if len(set(names)) == len(tree.keys):
                return Made(tuple(map(self.value, tree.values)), tuple(names))
        match tree:
            case ast.Call(ast.Name(name), [ast.Name() | ast.Constant(), behind], []) if self._means(name, typing.cast):
                return self.value(behind)
        return Literal(None) if isinstance(tree, ast.Constant) and tree.value is None else self.node(tree)

    def node(self, tree: ast.expr) -> Node:
        """An expression that gives one value."""
        match tree:
            case ast.Name(name) if isinstance(found := self._given.get(name), ItemOf):
                return found
            case ast.Constant(value) if type(value) in _CONSTANTS:
                return Literal(value)
            case ast.Subscript(of, ast.Constant(place)) if type(place) is str or (type(place) is int and place >= 0):
                return self._item(of, place)
            case ast.Attribute(of, name):
                return self._attribute(of, name)
            case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
                return Operation(_ARITHMETIC[type(operator)], (self.node(left), self.node(right)))
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)) if type(value) is not bool:
                return Literal(-value)
            case ast.UnaryOp(ast.USub(), operand):
                return Operation("negate", (self.node(operand),))
            case ast.UnaryOp(ast.Not(), operand):
                return Operation("not", (self.truth(operand),))
            case ast.Compare(left, [operator], [right]):
                return self._compared(left, operator, right)
            case ast.Call(ast.Name(name), [argument], []) if name in _CALLS:
                return self._called(name, argument)
            case ast.Call(ast.Attribute(of, name), arguments, []):
                return self._method(tree, of, name, arguments)
        raise _Unread(tree)

    def truth(self, tree: ast.expr) -> Node:
        """An expression of which only the truth matters."""
        if isinstance(tree, ast.BoolOp):
            first, *others = map(self.truth, tree.values)
            for other in others:
                first = Operation("and" if isinstance(tree.op, ast.And) else "or", (first, other))
            return first
        return self.node(tree)

    def _item(self, of: ast.expr, place: str | int | Attribute) -> Node:
        found = self.node(of)
        if not isinstance(found, ItemOf):
            raise _Unread(of)
        return ItemOf((*found.way, place))

    def _attribute(self, of: ast.expr, name: str) -> Node:
        if name.startswith("__"):
            # Inside a class Python takes it for another name.
            raise _Unread(of)
        source = self._given.get(of.id) if isinstance(of, ast.Name) else None
        if isinstance(source, Given):
            if source is Given.TIMESTAMP and name == "micros":
                return Operation("micros", (FromEngine("timestamp"),))
            if (source, name) not in _FROM_ENGINE:
                raise _Unread(of)
            return FromEngine(_FROM_ENGINE[source, name])
        if name == "micros" and isinstance(instant := self.node(of), FromEngine):
            return Operation("micros", (instant,))
        return self._item(of, Attribute(name))

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Node:
        if isinstance(operator, (ast.Is, ast.IsNot)) and isinstance(right, ast.Constant) and right.value is None:
            return Operation("is_null" if isinstance(operator, ast.Is) else "is_not_null", (self.node(left),))
        if type(operator) not in _COMPARISONS:
            raise _Unread(right)
        return Operation(_COMPARISONS[type(operator)], (self.node(left), self.node(right)))

    def _means(self, name: str, what: object) -> bool:
        """Whether a name is global and means this."""
        is_global = name not in self._given and name not in self._function.__code__.co_freevars
        if not is_global or _meaning(self._function, name) is not what:
            return False
        self.names[name] = what
        return True

    def _called(self, name: str, argument: ast.expr) -> Node:
        if not self._means(name, getattr(builtins, name)):
            raise _Unread(argument)
        match argument:
            case ast.Attribute(ast.Name(of), "timing") if name == "int" and self._given.get(of) is Given.PANE:
                return FromEngine("pane_timing")
        return Operation(_CALLS[name], (self.node(argument),))

    def _method(self, call: ast.expr, of: ast.expr, name: str, arguments: Sequence[ast.expr]) -> Node:
        if name == "get" and len(arguments) == 1 and isinstance(key := arguments[0], ast.Constant):
            if type(key.value) is str:
                # Where there is no such column the function is called.
                return self._item(of, key.value)
        elif _METHODS.get(name) == len(arguments) and all(
            isinstance(each, ast.Constant) and type(each.value) is str for each in arguments
        ):
            return Operation(name, (self.node(of), *map(self.node, arguments)))
        raise _Unread(call)
