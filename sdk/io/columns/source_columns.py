"""The columns of a collection as far as its sources declare them, found by following the pipeline back to these.

A step whose output fields are known to be fields of its input keeps their types. The function of any other step ends
the search, and columns are inferred from the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from headrace.sdk.expressions.expression import Expression
from headrace.sdk.expressions.expression_tree import Attribute, FieldOf, ItemOf
from headrace.sdk.expressions.translated_function import Made, Value
from headrace.sdk.expressions.udf_translation import value_returned
from headrace.sdk.functions.arguments import Arguments, Given
from headrace.sdk.functions.do_fn import FilterFn, FunctionDoFn, MapFn
from headrace.sdk.graph.pvalue import PCollection, Step
from headrace.sdk.io.columns.run_schema import merged
from headrace.sdk.io.dead_letters import SetApart
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.low_level import Source
from headrace.sdk.transforms.core.par_do import MultiParDo, ParDo
from headrace.sdk.transforms.core.reshuffle import Shuffling
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.transforms.schemas.fields import Field
from headrace.sdk.transforms.schemas.group_by import ToRow

Collection = PCollection[object]
_Path: TypeAlias = tuple[str, ...]
"""Names of a field and of fields within it."""


def source_columns(collection: Collection) -> pa.Schema | None:
    """The columns of the elements; None if they are not known, and type `null` for those of unknown types.

    >>> import headrace as beam
    >>> import pyarrow.parquet as pq
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"item": ["tea"], "count": pa.array([3], pa.int8())}), f"{folder}/sales.parquet")
    ...     sales = beam.Pipeline("LocalRunner") | beam.io.ReadFromParquet(f"{folder}/*")
    ...     made = sales | beam.Select("item", n="count", more=beam.col("count") + 1)
    ...     print(source_columns(made))
    item: string
    n: int8
    more: null
    """
    return _ColumnSearch().columns(collection)


class _ColumnSearch:
    """One search; a collection that several steps read is looked at once."""

    def __init__(self) -> None:
        self._known: dict[Collection, pa.Schema | None] = {}

    def columns(self, collection: Collection) -> pa.Schema | None:
        """See `source_columns`."""
        if collection not in self._known:
            producer = collection.producer
            self._known[collection] = None if producer is None else self._made_by(producer, collection.tag)
        return self._known[collection]

    def _made_by(self, step: Step, tag: str | None) -> pa.Schema | None:
        transform = step.transform
        inputs = [value for value in step.inputs if isinstance(value, PCollection)]
        if isinstance(transform, Source):
            return _unmarked(transform.arrow_schema())
        if isinstance(transform, Flatten):
            return _of_all([self.columns(value) for value in inputs])
        if isinstance(transform, MultiParDo) and isinstance(transform.par_do.fn, SetApart) and tag is None:
            return self.columns(inputs[0])
        if isinstance(transform, (WindowInto, Shuffling)):
            return self.columns(inputs[0])
        if isinstance(transform, ParDo) and isinstance(transform.fn, FunctionDoFn):
            return self._after(transform.fn, transform.arguments, inputs[0])
        return None

    def _after(self, fn: FunctionDoFn, arguments: Arguments, inputs: Collection) -> pa.Schema | None:
        if isinstance(fn, FilterFn):
            return self.columns(inputs)
        if type(fn) is not MapFn:
            return None
        if isinstance(fn.function, ToRow):
            paths = {name: _path_read(function) for name, function in fn.function.fields.items()}
        else:
            value = value_returned(fn.function, arguments)
            if value == ItemOf(()):
                return self.columns(inputs)
            if not isinstance(value, Made) or value.names is None:
                return None
            paths = dict(zip(value.names, map(_path, value.values), strict=True))
        known = self.columns(inputs)
        return None if known is None else pa.schema([_field(name, path, known) for name, path in paths.items()])


def _path_read(function: Callable[..., object]) -> _Path | None:
    """The field that a function reads; None if it does more."""
    match function:
        case Field():
            return (function.name,)
        case Expression(node=FieldOf(name)):
            return (name,)
        case Expression():
            return None
    return _path(value_returned(function, Arguments((Given.ELEMENT,))))


def _path(value: Value | None) -> _Path | None:
    steps = value.path if isinstance(value, ItemOf) else ()
    names = [step.name if isinstance(step, Attribute) else step for step in steps]
    path = tuple(name for name in names if isinstance(name, str))
    return path if path and len(path) == len(names) else None


def _field(name: str, path: _Path | None, known: pa.Schema) -> pa.Field:
    """A field of an element that was made of one with known fields."""
    fields: Mapping[str, pa.Field] = {field.name: field for field in known}
    found = None
    for step in path or ():
        found = fields.get(step)
        fields = {field.name: field for field in found.type} if found and pa.types.is_struct(found.type) else {}
    if found is None:
        return pa.field(name, pa.null())
    return found.with_name(name).with_nullable(found.nullable or len(path or ()) > 1)


def _unmarked(schema: pa.Schema | None) -> pa.Schema | None:
    """The schema without what a format keeps beside its fields."""
    return None if schema is None else pa.schema([field.remove_metadata() for field in schema])


def _of_all(schemas: Sequence[pa.Schema | None]) -> pa.Schema | None:
    """The columns of elements of which each has one of some schemas."""
    known = [schema for schema in schemas if schema is not None]
    together = common_columns(known) if len(known) == len(schemas) else None
    if together is None:
        return None
    unknown = {field.name for schema in known for field in schema if pa.types.is_null(field.type)}
    return pa.schema([pa.field(field.name, pa.null()) if field.name in unknown else field for field in together])


def common_columns(schemas: Sequence[pa.Schema]) -> pa.Schema | None:
    """The columns of inputs of which each has one of some schemas; None if they contradict, or share names of columns.

    >>> common_columns([pa.schema({"a": pa.int8(), "b": pa.null()}), pa.schema({"a": pa.int64(), "b": pa.int8()})])
    a: int64
    b: int8
    """
    if any(len({*schema.names}) < len(schema) for schema in schemas):
        return None
    try:
        return merged(schemas)
    except ValueError:
        # If there are elements of both types, the error names one.
        return None
