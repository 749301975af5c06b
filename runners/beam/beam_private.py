"""Undocumented parts of Apache Beam that `runners.beam` uses to run user code, one function for each; written for 2.77.

At an upgrade of Beam, check each function here against the new sources, and run `./dev beam`. Beam's histograms, whose
buckets are private too, have their functions in `runners.beam.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, cast

import apache_beam
import pyarrow as pa
from apache_beam.io import parquetio
from apache_beam.runners.direct import test_stream_impl
from apache_beam.testing import test_stream
from apache_beam.transforms import core, trigger
from apache_beam.transforms import window as beam_window

DoFnParam = core._DoFnParam
"""Class of the defaults that ask for what Beam gives: `DoFn.WindowParam` and its like."""
Never = trigger._Never
"""Class of the trigger that only fires when a window closes; Beam has no public way to name it."""


def wrapped_function(fn: object) -> Callable[..., object]:
    """The function of a DoFn or CombineFn that is made of a callable; Beam may have put it around another.

    Relies on the attribute `_fn`.
    """
    return cast("Callable[..., object]", cast(Any, fn)._fn)


def takes_elements(fn: apache_beam.DoFn) -> bool:
    """Whether a DoFn defines `process`. Relies on the property `_process_defined`."""
    return bool(fn._process_defined)


def takes_or_gives_batches(fn: apache_beam.DoFn) -> bool:
    """Whether a method of a DoFn has batches as input or output.

    Relies on the properties `_process_batch_defined` and `_process_yields_batches`.
    """
    return bool(fn._process_batch_defined or fn._process_yields_batches)


def output_types(fn: object) -> Mapping[str, tuple[str | None, object]] | None:
    """Step -> types that it expects of a DoFn's outputs; None unless Beam checks types while the pipeline runs.

    Relies on the attribute `_runtime_output_constraints`, which `PerformanceTypeCheckVisitor` sets.
    """
    return cast("Mapping[str, tuple[str | None, object]] | None", getattr(fn, "_runtime_output_constraints", None))


def finalizer_callbacks(finalizer: apache_beam.DoFn.BundleFinalizerParam) -> Sequence[Callable[[], None]]:
    """The callbacks that were registered with a bundle finalizer. Relies on the attribute `_callbacks`."""
    return cast("Sequence[Callable[[], None]]", finalizer._callbacks)


def is_tagged_with_step(error: BaseException) -> bool:
    """Whether Beam has put the step's name into an error. Relies on the attribute `_tagged_with_step`."""
    return bool(getattr(error, "_tagged_with_step", False))


def side_options(side: apache_beam.pvalue.AsSideInput) -> dict[str, object]:
    """What else than its class decides what a side input looks like. Relies on the method `_view_options`."""
    return cast("dict[str, object]", side._view_options())


def side_argument(kind: type, values: list[object], options: dict[str, object]) -> object:
    """The argument of a function for the values of a side window; `kind` is the class of the side input.

    Relies on the method `_from_runtime_iterable`.
    """
    return cast(object, cast(Any, kind)._from_runtime_iterable(values, options))


def script_of(transform: test_stream.TestStream) -> tuple[list[test_stream.Event], str | None]:
    """The events of a `TestStream`, and the address of the service that has them instead, if there is one.

    Relies on the attributes `_events` and `_endpoint`.
    """
    return transform._events, transform._endpoint


def read_events(address: str, tags: object, coder: object, events: SimpleQueue[Any]) -> None:
    """Read the events of a `TestStreamService` until its stream ends, which the last item says.

    Relies on `_TestStream._stream_events_from_rpc`, Beam's own reader.
    """
    test_stream_impl._TestStream._stream_events_from_rpc(address, tags, coder, events, lambda: True)


def periodic_data(transform: object) -> Sequence[object] | None:
    """The elements that a `PeriodicImpulse` repeats. Relies on the attribute `_data` of its DoFn."""
    return cast("Sequence[object] | None", cast(Any, transform).fn._data)


def puts_under_none(fn: apache_beam.DoFn) -> bool:
    """Whether a DoFn is that of `CombineGlobally`, which makes pairs of None and the element.

    Relies on the class `_KeyWithNone`.
    """
    return type(fn) is core._KeyWithNone


def is_table_maker(fn: apache_beam.DoFn) -> bool:
    """Whether a DoFn is that of `WriteToParquet`, which makes Arrow tables of rows.

    Relies on the class `_RowDictionariesToArrowTable`.
    """
    return type(fn) is parquetio._RowDictionariesToArrowTable


def schema_of_tables(fn: apache_beam.DoFn) -> pa.Schema:
    """The schema of the tables that a `_RowDictionariesToArrowTable` makes. Relies on its attribute `_schema`."""
    return fn._schema


def take_rows(fn: apache_beam.DoFn, table: pa.Table, window: beam_window.BoundedWindow) -> list[pa.Table]:
    """Have a `_RowDictionariesToArrowTable` take rows that are a table already; the table that is full before, if any.

    Relies on the attributes `_window`, `_buffer`, `_record_batches`, `_record_batches_byte_size` and
    `_row_group_buffer_size`, and on the methods `_flush_buffer` and `_create_table`.
    """
    fn._window = window
    if fn._buffer and fn._buffer[0]:
        fn._flush_buffer()
    full = [fn._create_table()] if fn._record_batches_byte_size >= fn._row_group_buffer_size else []
    fn._record_batches += table.to_batches()
    fn._record_batches_byte_size += table.nbytes
    return full
