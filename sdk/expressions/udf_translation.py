"""What: user functions translated to column expressions, by the syntax tree of what they return.

`lambda row: (row["key"], row["value"])` makes pairs of two columns. For elements in columns it is not called: its
result is computed as a column expression is, with the same results as a call, or else the function is called.
"""

from __future__ import annotations

import ast
import builtins
import typing
from collections.abc import Mapping, Sequence, Set
from functools import reduce
from types import FunctionType
from typing import cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.expressions.expression_tree import Attribute, FromEngine, ItemOf, Literal, Node, Operation
from headrace.sdk.expressions.translated_function import (
    CONSTANTS,
    EventTime,
    Made,
    TranslatedFunction,
    Value,
    outer_value,
)
from headrace.sdk.functions.arguments import Arguments, Converted, Given, given_of
from headrace.sdk.model.function_ast import (
    DEEPEST,
    Tree,
    definition_of,
    is_assigned_inside,
    is_deep,
    returned_by,
    tree_of,
)
from headrace.sdk.model.special_outputs import INSTANTS, STAMPED, TimestampedValue


def translate_function(
    function: object, arguments: Arguments, spread: bool = False, as_truth: bool = False
) -> TranslatedFunction | None:
    """The translation of a function; None if it must be called.

    Args:
        function: Plain Python with one `return`, of items and attributes of its parameters, tuples and dicts made of
            them, arithmetic, comparisons and a few functions and methods.
        arguments: Where the arguments of its parameters come from.
        spread: Whether the element is spread over the first of them.
        as_truth: Whether only the truth of the result matters.
    """
    translation = _translation_or_reason(function, arguments, spread, as_truth)
    return translation if isinstance(translation, TranslatedFunction) else None


def value_returned(function: object, arguments: Arguments) -> Value | None:
    """What a function is known to return; None if it is not known. Arguments as of `translate_function`.

    It is also known where functions have to be called, as under a debugger.
    """
    tree = definition_of(function)
    translation = "" if tree is None else _translation_of(tree, function, arguments)
    return translation.value if isinstance(translation, TranslatedFunction) else None


def why_not_translated(
    function: object, arguments: Arguments, spread: bool = False, as_truth: bool = False
) -> str | None:
    """Why a function is called for each element; None if it is translated. Arguments as of `translate_function`.

    >>> why_not_translated(print, Arguments((Given.ELEMENT,)))
    'there is no Python source of it to look into'
    """
    translation = _translation_or_reason(function, arguments, spread, as_truth)
    return translation if isinstance(translation, str) else None


def _translation_or_reason(
    function: object, arguments: Arguments, spread: bool, as_truth: bool
) -> TranslatedFunction | str:
    tree = tree_of(function)
    if tree is None:
        return "there is no Python source of it to look into"
    return _translation_of(tree, function, arguments, spread, as_truth)


def _translation_of(
    tree: Tree, function: object, arguments: Arguments, spread: bool = False, as_truth: bool = False
) -> TranslatedFunction | str:
    if (returned := returned_by(tree)) is None:
        return "it is more than one returned expression"
    if is_deep(returned):
        return f"it is more than {DEEPEST} levels deep"
    values = _values_of_parameters(tree.args, arguments, spread)
    if values is None:
        return "its parameters are more than the element, its timestamp, window and pane"
    reading = _Translator(values, cast(FunctionType, function))
    try:
        value, event_time = (reading.truth(returned), None) if as_truth else reading.result(returned)
    except _Untranslatable as untranslatable:
        return f"columns cannot do {_source_text(untranslatable.tree)}"
    width = sum(isinstance(each, ItemOf) for each in values.values()) if spread else None
    return (
        "it returns a constant"
        if isinstance(value, Literal) and not as_truth
        else TranslatedFunction(value, width, tuple(reading.names.items()), event_time)
    )


def _source_text(tree: ast.AST) -> str:
    """The source of an expression, shortened.

    >>> _source_text(ast.parse("sorted(word for word in words if word.startswith('a') or word.endswith('z'))"))
    "`sorted((word for word in words if word.startswith('a') or w…`"
    """
    try:
        text = ast.unparse(tree)
    except ValueError:
        # Python before 3.12 cannot unparse every f-string.
        return type(tree).__name__
    shown = text.encode(errors="backslashreplace").decode()
    return f"`{shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'}`"


def _values_of_parameters(
    parameters: ast.arguments, arguments: Arguments, spread: bool
) -> Mapping[str, Value | Given | Converted] | None:
    """The value of each parameter; None if a parameter has another source."""
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
        return None
    names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
    named = dict(arguments.named)
    sources: Sequence[object] = arguments.positional
    values: dict[str, Value | Given | Converted] = {}
    if spread:
        items = [name for name in names if name not in named]
        values |= {name: ItemOf((number,)) for number, name in enumerate(items)}
        if names[: len(items)] != items or parameters.defaults[: -len(named) or None] or len(sources) != 1:
            return None
        sources = ()
    for name, source in (*zip(names, sources, strict=False), *named.items()):
        if not isinstance(source, (Given, Converted)) or name not in names:
            return None
        values[name] = ItemOf(()) if given_of(source) is Given.ELEMENT else source
    return values if len(values) == len(names) else None


def _path(tree: ast.expr) -> str | None:
    """A name, or attributes of one, with dots between them; None for other expressions."""
    match tree:
        case ast.Name(name):
            return name
        case ast.Attribute(of, name):
            return None if (path := _path(of)) is None else f"{path}.{name}"
    return None


class _Untranslatable(Exception):
    """An expression has no translation to columns."""

    def __init__(self, tree: ast.expr) -> None:
        super().__init__(tree)
        self.tree = tree


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
_METHODS = {
    "lower": 0,
    "upper": 0,
    "strip": 0,
    "startswith": 1,
    "endswith": 1,
    "replace": 2,
    "timestamp": 0,
    "date": 0,
    "weekday": 0,
}
_SECOND = 1_000_000
_WHOLE = ("int",)
_NUMBERS = ("int", "float")
_MOMENTS = (*_NUMBERS, "aware", "instant")
"""Kinds of values that `Timestamp.of` takes."""
_SHOWN = 60
"""The greatest number of characters of source text in a reason."""


class _Translator:
    """Translates expressions of a function's source."""

    def __init__(self, given: Mapping[str, Value | Given | Converted], function: FunctionType) -> None:
        self._given, self._function = given, function
        self.names: dict[str, object] = {}
        """The names from outside in translated expressions, with their values."""

    def result(self, tree: ast.expr) -> tuple[Value, EventTime | None]:
        """The translation of what the function returns, and its event time, if it has one. Raises `_Untranslatable`."""
        match tree:
            case ast.Call(of, [behind, at], []) if self._is_one_of(of, STAMPED):
                return self.value(behind), self._event_time(at, self._is_one_of(of, {TimestampedValue}))
        return self.value(tree), None

    def _event_time(self, tree: ast.expr, is_ours: bool) -> EventTime:
        """The event time that an expression stands for. Other SDKs cut fractions of a microsecond, or refuse zones."""
        match tree:
            case ast.Call(of, [], [ast.keyword("micros", number)]) if self._is_one_of(of, INSTANTS):
                return EventTime(self.node(number), 1)
            case ast.Call(of, [seconds], []) if self._is_one_of(of, INSTANTS):
                return EventTime(self.node(seconds), _SECOND, _NUMBERS if self._is_one_of(of, {Timestamp}) else _WHOLE)
            case ast.Call(ast.Attribute(of, "of"), [moment], []) if self._is_one_of(of, {Timestamp}):
                return EventTime(self.node(moment), _SECOND, _MOMENTS)
            case ast.Call(ast.Attribute(of, "from_utc_datetime"), [moment], []) if self._is_one_of(of, {Timestamp}):
                return EventTime(self.node(moment), _SECOND, ("aware",))
        return EventTime(self.node(tree), _SECOND, _MOMENTS if is_ours else _WHOLE)

    def value(self, tree: ast.expr) -> Value:
        """The translation of an expression. Raises `_Untranslatable`."""
        if isinstance(tree, ast.Tuple) and tree.elts:
            return Made(tuple(map(self.value, tree.elts)))
        if isinstance(tree, ast.Dict) and tree.keys:
            names = [each.value for each in tree.keys if isinstance(each, ast.Constant) and type(each.value) is str]
            if len(set(names)) == len(tree.keys):
                return Made(tuple(map(self.value, tree.values)), tuple(names))
        match tree:
            case ast.Call(ast.Name(name), [ast.Name() | ast.Constant(), behind], []) if self._is_global(
                name, typing.cast
            ):
                return self.value(behind)
        return Literal(None) if isinstance(tree, ast.Constant) and tree.value is None else self.node(tree)

    def node(self, tree: ast.expr) -> Node:
        """The translation of an expression with a single value."""
        match tree:
            case ast.Name(name) if isinstance(found := self._given.get(name), ItemOf):
                return found
            case ast.Name(name) if (constant := self._constant(name)) is not None:
                return constant
            case ast.Constant(value) if type(value) in CONSTANTS:
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
            case ast.Compare(left, operators, operands):
                # Each operand of a chain is computed once, which nobody can see of columns.
                first, *others = map(self._compared, [left, *operands], operators, operands)
                return reduce(lambda one, other: Operation("and", (one, other)), others, first)
            case ast.IfExp(test, first, second):
                return Operation("if_else", (self.truth(test), self.node(first), self.node(second)))
            case ast.Call(ast.Name(name), [argument], []) if name in _CALLS:
                return self._called(name, argument)
            case ast.Call(ast.Attribute(of, name), arguments, []):
                return self._method(tree, of, name, arguments)
        raise _Untranslatable(tree)

    def truth(self, tree: ast.expr) -> Node:
        """The translation of an expression whose truth alone matters."""
        if isinstance(tree, ast.BoolOp):
            first, *others = map(self.truth, tree.values)
            for other in others:
                first = Operation("and" if isinstance(tree.op, ast.And) else "or", (first, other))
            return first
        return self.node(tree)

    def _item(self, of: ast.expr, step: str | int | Attribute) -> Node:
        parent = self.node(of)
        if not isinstance(parent, ItemOf):
            raise _Untranslatable(of)
        return ItemOf((*parent.path, step))

    def _attribute(self, of: ast.expr, name: str) -> Node:
        if name.startswith("__"):
            # Python mangles the name inside a class.
            raise _Untranslatable(of)
        source = self._given.get(of.id) if isinstance(of, ast.Name) else None
        if isinstance(source, Given):
            return self._of_engine(source, name, of)
        if isinstance(source, Converted) and isinstance(source.source, Given):
            # Microseconds and indices are the same in all SDKs, objects are not.
            if (source.source, name) not in ((Given.TIMESTAMP, "micros"), (Given.PANE, "index")):
                raise _Untranslatable(of)
            return self._of_engine(source.source, name, of)
        if name == "micros" and isinstance(instant := self._instant(of), FromEngine):
            return Operation("micros", (instant,))
        return self._item(of, Attribute(name))

    def _of_engine(self, source: Given, name: str, of: ast.expr) -> Node:
        """An attribute of what the engine gives."""
        if source is Given.TIMESTAMP and name == "micros":
            return Operation("micros", (FromEngine("timestamp"),))
        if (source, name) not in _FROM_ENGINE:
            raise _Untranslatable(of)
        return FromEngine(_FROM_ENGINE[source, name])

    def _instant(self, tree: ast.expr) -> Node:
        """What `micros` is taken of: also a bound of a window of another SDK's class."""
        match tree:
            case ast.Attribute(ast.Name(of), name):
                source = self._given.get(of)
                if isinstance(source, Converted) and isinstance(source.source, Given):
                    return self._of_engine(source.source, name, tree)
        return self.node(tree)

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Node:
        if isinstance(operator, (ast.Is, ast.IsNot)) and isinstance(right, ast.Constant) and right.value is None:
            return Operation("is_null" if isinstance(operator, ast.Is) else "is_not_null", (self.node(left),))
        if isinstance(operator, (ast.In, ast.NotIn)):
            found = Operation("isin", (self.node(left), Literal(self._members(right))))
            return found if isinstance(operator, ast.In) else Operation("not", (found,))
        if type(operator) not in _COMPARISONS:
            raise _Untranslatable(right)
        return Operation(_COMPARISONS[type(operator)], (self.node(left), self.node(right)))

    @staticmethod
    def _members(tree: ast.expr) -> tuple[object, ...]:
        """The constants of a tuple, list or set that is written out."""
        if isinstance(tree, (ast.Tuple, ast.List, ast.Set)):
            values = [each.value for each in tree.elts if isinstance(each, ast.Constant)]
            if len(values) == len(tree.elts) and all(value is None or type(value) in CONSTANTS for value in values):
                return tuple(values)
        raise _Untranslatable(tree)

    def _constant(self, name: str) -> Literal | None:
        """The constant that a name from outside stands for; None for other names."""
        if name in self._given or is_assigned_inside(self._function, name):
            return None
        value = outer_value(self._function, name)
        if type(value) not in CONSTANTS:
            return None
        self.names[name] = value
        return Literal(value)

    def _is_one_of(self, tree: ast.expr, classes: Set[type]) -> bool:
        """Whether an expression is a name from outside, perhaps of a module, and stands for one of some classes."""
        path = _path(tree)
        if path is None or path.partition(".")[0] in self._given:
            return False
        value = outer_value(self._function, path)
        if not isinstance(value, type) or value not in classes:
            return False
        self.names[path] = value
        return True

    def _is_global(self, name: str, value: object) -> bool:
        """Whether a name is global and has this value."""
        is_global = name not in self._given and name not in self._function.__code__.co_freevars
        if not is_global or outer_value(self._function, name) is not value:
            return False
        self.names[name] = value
        return True

    def _called(self, name: str, argument: ast.expr) -> Node:
        if not self._is_global(name, getattr(builtins, name)):
            raise _Untranslatable(argument)
        match argument:
            case ast.Attribute(ast.Name(of), "timing") if name == "int" and self._is_pane(of):
                return FromEngine("pane_timing")
        return Operation(_CALLS[name], (self.node(argument),))

    def _is_pane(self, name: str) -> bool:
        """Whether a name is that of the parameter that takes the pane."""
        source = self._given.get(name)
        return isinstance(source, (Given, Converted)) and given_of(source) is Given.PANE

    def _method(self, call: ast.expr, of: ast.expr, name: str, arguments: Sequence[ast.expr]) -> Node:
        if name == "get" and len(arguments) == 1 and isinstance(key := arguments[0], ast.Constant):
            if type(key.value) is str:
                # Where there is no such column, the function is called.
                return self._item(of, key.value)
        elif _METHODS.get(name) == len(arguments) and all(
            isinstance(each, ast.Constant) and type(each.value) is str for each in arguments
        ):
            return Operation(name, (self.node(of), *map(self.node, arguments)))
        raise _Untranslatable(call)
