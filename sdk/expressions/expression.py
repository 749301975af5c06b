"""What: column expressions, functions of an element that can be computed for many elements at once (`headrace.col`)."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.user_errors import users_line
from headrace.sdk.expressions.batch_view import BatchView
from headrace.sdk.expressions.element_schema import field_in
from headrace.sdk.expressions.expression_tree import (
    ENGINE_FUNCTIONS,
    OPERATIONS,
    FieldOf,
    FromEngine,
    Literal,
    Names,
    Node,
    OneLine,
    Operation,
    depth,
    expression_text,
    parts,
    source_of,
)
from headrace.sdk.functions.arguments import Given

_CASTS = {int: "cast_int", float: "cast_float", str: "cast_str", bool: "cast_bool"}
_DEEPEST = 180
"""Parentheses inside each other in an expression's source. Python reads 200, and pickles not many more."""
_REMEDY = "; write & for and, | for or, ~ for not, each comparison in parentheses: (col.delay > 15) & (col.delay < 60)"


def _with_other(operation: str, reflected: bool = False) -> Callable[[Expression, object], Expression]:
    """The method of an operator of two operands; `reflected` if the expression is the second one."""

    def method(self: Expression, other: object) -> Expression:
        operands = (node_of(other), self.node) if reflected else (self.node, node_of(other))
        return Expression(Operation(operation, operands))

    return method


def _alone(operation: str) -> Callable[[Expression], Expression]:
    """The method of an operator of one operand."""
    return lambda self: Expression(Operation(operation, (self.node,)))


class Expression(OneLine):
    """A value made of an element's fields; `col` makes the first ones, operators and methods the others.

    It is a function of the element and gives what the same operators give in Python; only `&`, `|` and `~` are Python's
    `and`, `or` and `not`, so the right side of `&` is not asked where the left is false. Where elements come as columns
    the engine computes it for all of them at once, with the same results.

    >>> from headrace import Row, col
    >>> late = (col.delay > 15) & ~col.cancelled
    >>> late({"delay": 20, "cancelled": False}), late(Row(delay=20, cancelled=True))
    (True, False)
    """

    from_engine: tuple[str, ...]
    """What it takes besides the element: `window`, `timestamp`, `pane`."""

    def __init__(self, node: Node, name: str | None = None) -> None:
        if depth(node) > _DEEPEST:
            raise ValueError(
                f"a column expression has more than {_DEEPEST} operations inside each other; write a function of the "
                "element, or several steps"
            )
        self.node = node
        """What it computes."""
        self.result_name = name if name is not None or not isinstance(node, FieldOf) else node.name
        """Of the field that it makes in a `Select` or a `GroupBy`; None if it has none."""
        self._line = users_line()
        names = {each.name.partition("_")[0] for each in parts(node) if isinstance(each, FromEngine)}
        take_from_engine(self, names)

    def __call__(self, element: object, window: object = None, timestamp: object = None, pane: object = None) -> object:
        """Its value for an element. What the operators raise for it is raised."""
        for name in self.from_engine:
            if {"window": window, "timestamp": timestamp, "pane": pane}[name] is None:
                raise TypeError(
                    f"{self!r} takes the {name} of the element, which it is not given here; use it in Map, Filter, "
                    "Select or GroupBy"
                )
        return self.as_function()(element, window, timestamp, pane)

    def written(self, names: Names) -> str:
        """See `OneLine`."""
        return source_of(self.node, names)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.node, self.result_name), {"_line": self._line}

    # What steps ask

    def fields(self) -> list[str]:
        """The fields that it takes of the element."""
        return list(dict.fromkeys(node.name for node in parts(self.node) if isinstance(node, FieldOf)))

    def shape_in(self, shape: ValueSchema) -> ValueSchema | None:
        """Where its value lies in values of a shape; None if it must be computed."""
        return field_in(shape, self.node.name) if isinstance(self.node, FieldOf) else None

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        # Arrow's functions take a tenth of a second to load, which a program without columns need not wait for.
        from headrace.sdk.expressions.arrow_evaluation import shape_of

        return shape_of(self.node, view)

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()

    @property
    def output_hints(self) -> tuple[object, dict[str | None, object]]:
        """The type of its values, for the steps that it is given to."""
        gives = OPERATIONS[self.node.name].gives if isinstance(self.node, Operation) else None
        return (Any if gives is None else gives), {}

    def default_label(self) -> str:
        """As it was written."""
        return self.result_name or expression_text(self.node)

    def __repr__(self) -> str:
        return f"<column expression {expression_text(self.node)}>"

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            # Python itself and its libraries ask for these, to find out what an object can do.
            raise AttributeError(name)
        raise AttributeError(
            f"{self!r} has no attribute {name!r}; a field of a field is read by a function of the element, as in "
            f"Map(lambda element: element[...][{name!r}])"
        )

    # Operators

    __add__, __radd__ = _with_other("add"), _with_other("add", reflected=True)
    __sub__, __rsub__ = _with_other("subtract"), _with_other("subtract", reflected=True)
    __mul__, __rmul__ = _with_other("multiply"), _with_other("multiply", reflected=True)
    __truediv__, __rtruediv__ = _with_other("divide"), _with_other("divide", reflected=True)
    __floordiv__, __rfloordiv__ = _with_other("floor_divide"), _with_other("floor_divide", reflected=True)
    __mod__, __rmod__ = _with_other("modulo"), _with_other("modulo", reflected=True)
    __neg__, __abs__, __invert__ = _alone("negate"), _alone("absolute"), _alone("not")
    __and__, __rand__ = _with_other("and"), _with_other("and", reflected=True)
    __or__, __ror__ = _with_other("or"), _with_other("or", reflected=True)
    __lt__, __le__ = _with_other("less"), _with_other("less_equal")
    __gt__, __ge__ = _with_other("greater"), _with_other("greater_equal")
    __eq__ = _with_other("equal")  # type: ignore[assignment]  # as in every library of columns
    __ne__ = _with_other("not_equal")  # type: ignore[assignment]  # likewise
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} is true or false for an element, not while the pipeline is built: `and`, `or`, `not`, `if` and "
            f"a < b < c cannot be used on it{_REMEDY}"
        )

    def __contains__(self, other: object) -> bool:
        raise TypeError(f"`in` cannot be used on {self!r}; write .contains(...) or .isin([...])")

    def __iter__(self) -> object:
        raise TypeError(f"{self!r} has no items; it is a value of an element, known when the pipeline runs")

    # Nothing

    def is_null(self) -> Expression:
        """Whether the value is None."""
        return self._with("is_null")

    def is_not_null(self) -> Expression:
        """Whether the value is not None."""
        return self._with("is_not_null")

    def fill_null(self, other: object) -> Expression:
        """The value, or another one (a constant or an expression) where it is None.

        >>> from headrace import col
        >>> col.delay.fill_null(0)({"delay": None})
        0
        """
        return self._with("fill_null", other)

    def isin(self, values: Iterable[object]) -> Expression:
        """Whether the value is one of these; all of them must be hashable.

        >>> from headrace import col
        >>> col.carrier.isin(["UA", "AA"])({"carrier": "UA"})
        True
        """
        if isinstance(values, (str, bytes, Expression)):
            raise TypeError(f"isin takes a list of values, got {values!r:.80}; for a part of a text use .contains()")
        members = tuple(values)
        hash(members)
        return Expression(Operation("isin", (self.node, Literal(members))))

    # Text

    def lower(self) -> Expression:
        """The text in lower case."""
        return self._with("lower")

    def upper(self) -> Expression:
        """The text in upper case."""
        return self._with("upper")

    def strip(self) -> Expression:
        """The text without white space around it."""
        return self._with("strip")

    def startswith(self, prefix: str) -> Expression:
        """Whether the text begins so."""
        return self._with("startswith", prefix)

    def endswith(self, suffix: str) -> Expression:
        """Whether the text ends so."""
        return self._with("endswith", suffix)

    def contains(self, part: object) -> Expression:
        """Whether the text has this in it; or a list, or whatever `in` works for."""
        return self._with("contains", part)

    def replace(self, old: str, new: str) -> Expression:
        """The text with every `old` replaced."""
        return self._with("replace", old, new)

    def length(self) -> Expression:
        """The number of characters; or of items, for what has items."""
        return self._with("length")

    # Other

    def cast(self, kind: type) -> Expression:
        """The value as an `int`, `float`, `str` or `bool`, as Python makes one of it.

        >>> from headrace import col
        >>> col.delay.cast(float)({"delay": "1.5"})
        1.5
        """
        if kind not in _CASTS:
            raise TypeError(f"cast takes int, float, str or bool, got {kind!r:.80}; use Map for other types")
        return self._with(_CASTS[kind])

    def alias(self, name: str) -> Expression:
        """The same under a name: the field's in a `Select` or a `GroupBy`.

        >>> from headrace import Select, col
        >>> Select("carrier", (col.delay / 60).alias("hours")).label
        'ToRows(carrier, hours)'
        """
        if not str(name).isidentifier():
            raise ValueError(f"an alias is the name of a field, got {name!r:.80}; letters, digits and _ make one")
        return Expression(self.node, name)

    def _with(self, operation: str, *others: object) -> Expression:
        return Expression(Operation(operation, (self.node, *map(node_of, others))))


_GIVEN = {"window": Given.WINDOW, "timestamp": Given.TIMESTAMP, "pane": Given.PANE}


def take_from_engine(function: object, names: Iterable[str]) -> None:
    """Let a callable object get these from the engine besides the element, by name."""
    taken = tuple(sorted(names))
    attributes: dict[str, object] = {"from_engine": taken}
    if taken:
        # Where steps look for what a function takes.
        given = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_GIVEN[name]) for name in taken]
        element = inspect.Parameter("element", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        attributes["__signature__"] = inspect.Signature([element, *given])
    vars(function).update(attributes)


def names_from_engine(functions: Iterable[object]) -> set[str]:
    """What functions take besides the element."""
    return {name for function in functions for name in getattr(function, "from_engine", ())}


def node_of(value: object) -> Node:
    """The node of an operand: an expression's, or a constant."""
    return value.node if isinstance(value, Expression) else Literal(value)


class ColumnReferences:
    """Makes column expressions: `col("delay")` or `col.delay` is a field of the element.

    `event_time()`, `window_start()`, `window_end()`, `pane_index()`, `pane_timing()` and `literal(value)` in `headrace`
    are the other expressions. Their first spellings as attributes are deprecated: `col.timestamp` is the event time
    where the elements have no field of this name, and refuses elements that have one.
    """

    def __call__(self, name: str) -> Expression:
        """A field of the element."""
        if not isinstance(name, str):
            raise TypeError(f"col takes the name of a field, got {name!r:.80}; a constant is headrace.literal(value)")
        if not name:
            raise ValueError("col takes the name of a field, got an empty one; name the field")
        return Expression(FieldOf(name))

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            # Python itself asks for these, to find out what an object can do.
            raise AttributeError(name)
        if name in ENGINE_FUNCTIONS:
            return _deprecated(name)
        return (_LiteralField if name == "literal" else Expression)(FieldOf(name))

    def __repr__(self) -> str:
        return "col"


class _LiteralField(Expression):
    """The field `literal`; called with a constant, the constant (deprecated)."""

    def __call__(self, element: object, window: object = None, timestamp: object = None, pane: object = None) -> object:
        """The field, or the expression of a constant that has no such field."""
        if isinstance(element, Mapping) or hasattr(element, "literal"):
            return super().__call__(element)
        _warn("col.literal(value)", "literal(value)")
        return literal(element)


def _deprecated(name: str) -> Expression:
    """The expression of an attribute of `col` that means one of the engine's values."""
    _warn(f"col.{name}", f"{ENGINE_FUNCTIONS[name]}()")
    return Expression(FromEngine(name, as_attribute=True), name)


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is deprecated, as it hides a field, and goes in 0.3; write headrace.{new}",
        DeprecationWarning,
        stacklevel=4,
    )


col = ColumnReferences()
"""Makes column expressions; see `ColumnReferences`."""


def event_time() -> Expression:
    """The expression of the element's event time, a `Timestamp`.

    >>> from headrace import Filter, event_time
    >>> Filter(event_time() >= 60).label
    'Filter(event_time() >= 60)'
    """
    return Expression(FromEngine("timestamp"), "timestamp")


def window_start() -> Expression:
    """The expression of the first instant of the element's window, a `Timestamp`.

    >>> from headrace import Select, window_start
    >>> Select("total", at=window_start()).label
    'ToRows(total, at)'
    """
    return Expression(FromEngine("window_start"), "window_start")


def window_end() -> Expression:
    """The expression of the first instant after the element's window, a `Timestamp`.

    >>> from headrace import Select, window_end
    >>> Select("total", window_end()).label
    'ToRows(total, window_end)'
    """
    return Expression(FromEngine("window_end"), "window_end")


def pane_index() -> Expression:
    """The expression of the number of panes that the element's window had before the one that the element is in.

    >>> from headrace import Filter, pane_index
    >>> Filter(pane_index() == 0).label
    'Filter(pane_index() == 0)'
    """
    return Expression(FromEngine("pane_index"), "pane_index")


def pane_timing() -> Expression:
    """The expression of when the element's pane was fired, a number of `PaneInfoTiming`: 0 early, 1 on time, 2 late.

    >>> from headrace import Filter, pane_timing
    >>> Filter(pane_timing() != 2).label
    'Filter(pane_timing() != 2)'
    """
    return Expression(FromEngine("pane_timing"), "pane_timing")


def literal(value: object) -> Expression:
    """The expression with the same value for every element.

    >>> from headrace import col, literal
    >>> (literal(60) - col.delay)({"delay": 20})
    40
    """
    return Expression(Literal(value))
