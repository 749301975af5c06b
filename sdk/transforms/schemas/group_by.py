"""What: grouping, aggregation and selection by fields (`apache_beam.GroupBy`, `apache_beam.Select`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import TypeAlias, cast

from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.records.record import new_tuple
from headrace.lowlevel.user_errors import users_line
from headrace.sdk.combinefns.combine_fn import CombineFn, SomeCombineFn
from headrace.sdk.combinefns.composite import TupleCombineFn, with_names
from headrace.sdk.expressions.batch_view import BatchView, PairFunction
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Tuple, pair
from headrace.sdk.expressions.expression import Expression as ColumnExpression
from headrace.sdk.expressions.expression import names_from_engine, take_from_engine
from headrace.sdk.expressions.expression_tree import Names, OneLine, written
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.model.labels import label_of
from headrace.sdk.transforms.aggregation.combine import CombinePerKey
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import Map, MapTuple
from headrace.sdk.transforms.schemas.fields import Expression, expression, expression_type, missing_field
from headrace.sdk.typehints.hints import RowTypeConstraint, tuple_of, type_name
from headrace.sdk.typehints.io_type_hints import TypeCheckError

Functions = dict[str, Callable[[object], object]]
Combiner: TypeAlias = "SomeCombineFn | Callable[..., object]"
Aggregation: TypeAlias = tuple[Callable[[object], object], Combiner, str]
"""The expression to combine, the combiner, and the name of the result's field."""


class Select(PTransform[Collection, Collection]):
    """Turns elements into rows of the given fields and expressions.

    Args:
        *fields: Names of fields to keep; functions of the element become fields `arg00`, `arg01`, ….
        **named: Name of a new field -> the name of a field, or a function of the element.

    >>> Select("carrier", late=lambda flight: flight.delay > 15).label
    'ToRows(carrier, late)'
    """

    def __init__(self, *fields: Expression, **named: Expression) -> None:
        super().__init__()
        self._fields = _functions("Select", fields, named, "arg%02d")
        if not self._fields:
            raise ValueError("Select takes at least one field or expression")

    def default_label(self) -> str:
        """The names of the fields."""
        return f"ToRows({', '.join(self._fields)})"

    def expand(self, inputs: Collection) -> Collection:
        """A collection with one row for each element."""
        _check_fields(inputs, self._fields)
        kind = _row_type(self._fields, inputs.element_type)
        return inputs | "Select" >> Map(ToRow(self._fields)).with_output_types(kind)


class GroupBy(PTransform[Collection, Collection]):
    """Groups elements by a key of fields and expressions, into pairs (key, elements).

    The key is the value of the expression if there is a single positional one; otherwise it is a named tuple. Without
    expressions the tuple is empty, and all elements are in one group.

    Args:
        *fields: Names of fields, or functions of the element (named `key0`, `key1`, …).
        **named: Name of a part of the key -> the name of a field, or a function of the element.

    >>> GroupBy("carrier").aggregate_field("delay", max, "worst").label
    'GroupBy(carrier)'
    """

    def __init__(self, *fields: Expression, **named: Expression) -> None:
        super().__init__()
        self._fields = _functions("GroupBy", fields, named, "key%d" if len(fields) + len(named) > 1 else "key")
        self._tuple_keys = len(self._fields) != 1 or bool(named)

    def default_label(self) -> str:
        """The names of the parts of the key."""
        return f"GroupBy({', '.join(self._fields)})"

    def force_tuple_keys(self, value: bool = True) -> GroupBy:
        """The same transform with a named tuple as the key, even for a single expression."""
        clone = copy(self)
        clone._tuple_keys = value
        return clone

    def aggregate_field(self, field: Expression, combine_fn: Combiner, dest: str) -> GroupAndAggregate:
        """A transform that combines a field's values instead of keeping the elements; it can be called again for more.

        Args:
            field: The field's name, or a function of the element.
            combine_fn: A `CombineFn`, or a function from an iterable of values to a value.
            dest: Name of the result's field.

        Raises:
            ValueError: `dest` is not an identifier, or is the name of another field of the result.
        """
        return GroupAndAggregate(self, ()).aggregate_field(field, combine_fn, dest)

    def key_function(self) -> Callable[[object], object]:
        """The function from an element to its key."""
        if self._tuple_keys or len(self._fields) != 1:
            return _ToTuple("Key", self._fields)
        return next(iter(self._fields.values()))

    def key_type(self, input_type: object) -> object:
        """The key type for elements of a type."""
        if self._tuple_keys or len(self._fields) != 1:
            return _row_type(self._fields, input_type)
        return expression_type(next(iter(self._fields.values())), input_type)

    @property
    def fields(self) -> Functions:
        """Name -> expression of each part of the key."""
        return self._fields

    def expand(self, inputs: Collection) -> Collection:
        """A collection of pairs (key, elements) in the same windows."""
        _check_fields(inputs, self._fields)
        kinds = tuple_of([self.key_type(inputs.element_type), inputs.element_type])
        keyed = inputs | "Key" >> Map(_Keyed(self.key_function())).with_output_types(kinds)
        return keyed | GroupByKey()


class GroupAndAggregate(PTransform[Collection, Collection]):
    """Groups and combines: gives named tuples of the parts of a key and the combined fields.

    `GroupBy(...).aggregate_field(...)` makes it.
    """

    def __init__(
        self, grouping: GroupBy, aggregations: tuple[tuple[Callable[[object], object], object, str], ...]
    ) -> None:
        super().__init__()
        self._grouping, self._aggregations = grouping, aggregations

    def default_label(self) -> str:
        """The label of the grouping."""
        return self._grouping.label

    def aggregate_field(self, field: Expression, combine_fn: Combiner, dest: str) -> GroupAndAggregate:
        """The same transform with one more combined field; see `GroupBy.aggregate_field`."""
        names = [*self._grouping.fields, *(name for _, _, name in self._aggregations)]
        if not dest.isidentifier() or dest in names:
            raise ValueError(f"dest must be a field's name other than {', '.join(names)}, got {dest!r:.80}")
        if isinstance(combine_fn, type) and issubclass(combine_fn, CombineFn):
            combine_fn = combine_fn()
        added = (expression(field, "aggregate_field"), combine_fn, dest)
        return GroupAndAggregate(self._grouping, (*self._aggregations, added))

    def expand(self, inputs: Collection) -> Collection:
        """A collection of named tuples in the same windows."""
        values = {dest: function for function, _, dest in self._aggregations}
        _check_fields(inputs, {**self._grouping.fields, **values})
        grouping = self._grouping.force_tuple_keys()
        kinds = tuple_of([grouping.key_type(inputs.element_type), tuple])
        keyed = inputs | "Key" >> Map(_Keyed(grouping.key_function(), values)).with_output_types(kinds)
        combiners = cast("list[Combiner]", [each[1] for each in self._aggregations])
        texts = [f"field {dest!r} (aggregate_field of {label_of(field)})" for field, _, dest in self._aggregations]
        combine_fn = with_names(TupleCombineFn(*combiners), texts)
        result = _Result((*grouping.fields, *values))
        return keyed | "Combine" >> CombinePerKey(combine_fn) | "Result" >> MapTuple(result)


class _Made(OneLine):
    """Base of functions that build a value from results of other functions of the element.

    Some of these functions may also take the window or the timestamp of the element.
    """

    from_engine: tuple[str, ...]

    def __init__(self, functions: Iterable[Callable[..., object]]) -> None:
        self._functions = list(functions)
        lines = {getattr(function, "_line", None) for function in self._functions}
        self._line = lines.pop() if len(lines) == 1 and None not in lines else users_line()
        take_from_engine(self, names_from_engine(self._functions))

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_function": None}

    def __call__(self, element: object, **from_engine: object) -> object:
        return self.as_function()(element, **from_engine)

    def column_parts(self) -> list[Callable[..., object]]:
        """See `ColumnFunction`."""
        return self._functions


class ToRow(_Made):
    """Builds a row from expressions."""

    def __init__(self, fields: Functions) -> None:
        super().__init__(fields.values())
        self._fields = fields

    @property
    def fields(self) -> Functions:
        """Name of each field of the row -> its expression."""
        return self._fields

    def written(self, names: Names) -> str:
        """See `OneLine`."""
        items = ", ".join(f"{name!r}: {written(function, names)}" for name, function in self._fields.items())
        return f"Row.of({{{items}}})"

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return Fields(tuple(self._fields), tuple(map(view.shape_of, self._functions)), FieldsKind.ROW)


class _ToTuple(_Made):
    """Builds a named tuple from expressions; the tuple's type is the same in every process."""

    def __init__(self, name: str, fields: Functions) -> None:
        super().__init__(fields.values())
        self._name, self._fields = name, fields

    def written(self, names: Names) -> str:
        """See `OneLine`."""
        items = "".join(f"{written(function, names)}, " for function in self._functions)
        kind = names.of(dynamic_named_tuple(self._name, tuple(self._fields)))
        return f"{names.of(new_tuple)}({kind}, ({items}))"

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        shapes = tuple(map(view.shape_of, self._functions))
        return Fields(tuple(self._fields), shapes, FieldsKind.TUPLE, self._name)


class _Keyed(_Made):
    """Builds a pair of an element's key and the element, or a pair of the key and values from the element."""

    def __init__(self, key: Callable[[object], object], values: Functions | None = None) -> None:
        super().__init__([key, *(values or {}).values()])
        self._key, self._values = key, values

    def written(self, names: Names) -> str:
        """See `OneLine`."""
        key, *values = (written(function, names) for function in self._functions)
        return f"({key}, e)" if self._values is None else f"({key}, ({''.join(f'{value}, ' for value in values)}))"

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        key, *values = map(view.shape_of, self._functions)
        return pair(key, view.shape if self._values is None else Tuple(tuple(values)))


class _Result(PairFunction):
    """Builds the named tuple of a key's parts and the combined values."""

    takes_items = True
    """Marker for `MapTuple`: the key and the values are two arguments."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, key: Iterable[object], values: Iterable[object]) -> tuple[object, ...]:
        return dynamic_named_tuple("Result", self._names)(*key, *values)

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        shapes = tuple(shape for part in view.pair() for shape in view.items(part))
        return Fields(self._names, shapes, FieldsKind.TUPLE, "Result")


def _functions(step: str, fields: tuple[Expression, ...], named: dict[str, Expression], pattern: str) -> Functions:
    functions: Functions = {}
    for index, field in enumerate(fields):
        named_itself = field.result_name if isinstance(field, ColumnExpression) else None
        name = field if isinstance(field, str) else named_itself or (pattern % index if "%" in pattern else pattern)
        if name in functions or name in named:
            raise ValueError(f"{step} is given the field {name!r} twice; name one of them otherwise: other={name!r}")
        functions[name] = expression(field, step)
    return functions | {name: expression(what, step) for name, what in named.items()}


def _row_type(fields: Functions, input_type: object) -> object:
    return RowTypeConstraint(tuple((name, expression_type(each, input_type)) for name, each in fields.items()))


def _check_fields(inputs: Collection, fields: Functions) -> None:
    """Raise TypeCheckError for a field that the elements, by their known type, do not have."""
    if problem := missing_field(fields, inputs.element_type):
        producer = inputs.producer.full_label if inputs.producer else ""
        raise TypeCheckError(
            f"step {inputs.pipeline.current_label!r}: what step {producer!r} puts out, "
            f"{type_name(inputs.element_type)}, {problem}"
        )
