"""Undocumented parts of Apache Beam that `runners.beam` uses to run user code, one function for each; written for 2.77.

It was tried with 2.74 and 2.76, too. At an upgrade of Beam, check each function here against the new sources, and run
`./dev beam`. No other module of the runner uses a private name of Beam's, which `./dev lint` checks.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, cast

import apache_beam
import pyarrow as pa
from apache_beam import coders
from apache_beam.io import fileio, parquetio
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.metrics import cells
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct import test_stream_impl
from apache_beam.testing import test_stream
from apache_beam.transforms import core, trigger, userstate, window
from apache_beam.typehints import row_type
from apache_beam.utils.histogram import Histogram, LinearBucket

try:
    from apache_beam.io.unbounded_source import _FinalizeCheckpointOnce
except ModuleNotFoundError:
    # Before Beam 2.76.
    _FinalizeCheckpointOnce = None

DoFnParam = core._DoFnParam
"""Class of the defaults that ask for what Beam gives: `DoFn.WindowParam` and its like."""
StateParam = core._StateDoFnParam
"""Class of the defaults that ask for a state; the attribute `state_spec` is the state's declaration."""
TimerParam = core._TimerDoFnParam
"""Class of the defaults that ask for a timer; the attribute `timer_spec` is the timer's declaration."""
MultiParDo = core._MultiParDo
"""Class of a `ParDo` with several outputs."""
WriteRecords = (fileio._WriteUnshardedRecordsFn, fileio._WriteShardedRecordsFn)
"""Classes of the DoFns by which `fileio.WriteToFiles` writes temporary files; `base_path` is their directory."""
MoveTemporaryFiles = fileio._MoveTempFilesIntoFinalDestinationFn
"""Class of the DoFn that gives these files their names; `temporary_directory` is their directory."""
RowsOfTables = parquetio._ArrowTableToRowDictionaries
"""Class of the DoFn by which `ReadFromParquet` makes a dict of each row of an Arrow table."""
Never = trigger._Never
"""Class of the trigger that only fires when a window closes; Beam has no public way to name it."""


def wrapped_function(fn: object) -> Callable[..., object]:
    """The function of a DoFn or CombineFn that is made of a callable; Beam may have put it around another.

    Relies on the attribute `_fn`.
    """
    return cast("Callable[..., object]", cast(Any, fn)._fn)


def library_arguments(fn: apache_beam.CombineFn) -> Mapping[str, object]:
    """The arguments of a combiner of Beam's library on which its accumulators depend; none for other classes.

    Relies on `_key` and `_compare` of `TopCombineFn`, on `_top_combiner` of `SampleCombineFn`, and on `_combiners` of
    `TupleCombineFn` and its kin, beside what the combiners say for display.
    """
    if not type(fn).__module__.startswith("apache_beam.") or type(fn).__module__.endswith("_test"):
        return {}
    shown = {name: value for name, value in fn.display_data().items() if isinstance(value, (int, float, bool, str))}
    own = {name: getattr(fn, f"_{name}") for name in ("key", "compare") if hasattr(fn, f"_{name}")}
    parts = [*getattr(fn, "_combiners", ()), *filter(None, [getattr(fn, "_top_combiner", None)])]
    inner = {
        f"{name} of {at}": value for at, part in enumerate(parts, 1) for name, value in library_arguments(part).items()
    }
    return shown | own | inner


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


def take_rows(fn: apache_beam.DoFn, table: pa.Table, w: window.BoundedWindow) -> list[pa.Table]:
    """Have a `_RowDictionariesToArrowTable` take rows that are a table already; the table that is full before, if any.

    Relies on the attributes `_window`, `_buffer`, `_record_batches`, `_record_batches_byte_size` and
    `_row_group_buffer_size`, and on the methods `_flush_buffer` and `_create_table`.
    """
    fn._window = w
    if fn._buffer and fn._buffer[0]:
        fn._flush_buffer()
    full = [fn._create_table()] if fn._record_batches_byte_size >= fn._row_group_buffer_size else []
    fn._record_batches += table.to_batches()
    fn._record_batches_byte_size += table.nbytes
    return full


def is_generated_row_type(kind: type) -> bool:
    """Whether Beam has made up a class for rows, as the process does not know one for their schema.

    Relies on the function `_user_type_is_generated`.
    """
    return bool(row_type._user_type_is_generated(kind))


def timer_method(spec: userstate.TimerSpec) -> str:
    """The name of the method that a timer calls. Relies on the attribute `_attached_callback`."""
    return cast(str, spec._attached_callback.__name__)


def created_coder(create: core.Create) -> coders.Coder:
    """The coder of the values of a `Create`, chosen when it was made. Relies on the attribute `_coder`."""
    return cast(Any, create)._coder


def component_coders(coder: coders.Coder) -> Sequence[coders.Coder]:
    """The coders of the parts that a coder puts together. Relies on the method `_get_component_coders`."""
    return cast("Sequence[coders.Coder]", coder._get_component_coders())


def fallback_coder(coder: coders.FastPrimitivesCoder) -> coders.Coder:
    """The coder of all values that are no primitives. Relies on the attribute `_fallback_coder`."""
    return cast(coders.Coder, coder._fallback_coder)


def map_coders(coder: coders.MapCoder) -> tuple[coders.Coder, coders.Coder]:
    """The coders of the keys and of the values of dicts. Relies on the attributes `_key_coder` and `_value_coder`."""
    return coder._key_coder, coder._value_coder


def flags_of(options: PipelineOptions) -> list[str]:
    """The flags that options were made of, declared ones and others. Relies on the attribute `_flags`."""
    return cast("list[str]", options._flags)


def _of_mark(callback: Any) -> tuple[type, tuple[object]]:
    return _FinalizeCheckpointOnce, (callback._checkpoint_mark,)


if _FinalizeCheckpointOnce is not None:
    # The callback of Beam's unbounded sources has a lock, and goes from a worker to the driver.
    copyreg.pickle(_FinalizeCheckpointOnce, _of_mark)


# File sinks


def temporary_directory(transform: fileio.WriteToFiles) -> object:
    """The directory for temporary files that a `WriteToFiles` was given or has drawn: a path or a `ValueProvider`.

    Relies on the attribute `_temp_directory`.
    """
    return cast(object, transform._temp_directory)


def draws_directory(kind: type[FileBasedSink]) -> bool:
    """Whether sinks of a class draw the name of their temporary directory as `FileBasedSink` does.

    Relies on the method `_create_temp_dir`.
    """
    return kind._create_temp_dir is FileBasedSink._create_temp_dir


def drawn_directory(sink: FileBasedSink) -> str:
    """A temporary directory of a sink; its name ends with 32 random hexadecimal digits.

    Relies on the method `_create_temp_dir`.
    """
    return cast(str, sink._create_temp_dir(sink.file_path_prefix.get()))


def finalizes_as_usual(kind: type[FileBasedSink]) -> bool:
    """Whether sinks of a class give files their names as `FileBasedSink` does.

    Relies on the methods `_get_final_name` and `_check_state_for_finalize_write`.
    """
    names = ("finalize_write", "finalize_windowed_write", "_get_final_name", "_check_state_for_finalize_write")
    return all(getattr(kind, name) is getattr(FileBasedSink, name) for name in names)


Renames = tuple[list[str], list[str], list[str], int]
"""Temporary files to rename, their new names, files to delete, and the number of files that have their new names."""


def rename_by(
    sink: FileBasedSink, renames: Callable[[Sequence[str], int, window.BoundedWindow | None], Renames]
) -> None:
    """Let a function decide which temporary files a sink renames, from their names, their number and their window.

    Relies on `finalize_windowed_write` calling the method `_check_state_for_finalize_write`.
    """

    def check(names: Sequence[str], count: int, w: window.BoundedWindow | None = None) -> Renames:
        return renames(names, count, w)

    sink._check_state_for_finalize_write = check


def final_name(sink: FileBasedSink, number: int, count: int, w: window.BoundedWindow | None) -> str:
    """The name of one of `count` files of a window. Relies on the method `_get_final_name`."""
    return cast(str, sink._get_final_name(number, count, w))


def report_lineage(sink: FileBasedSink, count: int, names: Iterable[str], w: window.BoundedWindow | None) -> None:
    """Report files that a sink has written for a window.

    Relies on the methods `_report_sink_lineage` and `_get_final_name_glob`.
    """
    sink._report_sink_lineage(sink._get_final_name_glob(count, w), list(names))


# Histograms


def buckets_of(factory: cells.HistogramCellFactory) -> object:
    """The buckets of a histogram, of any class. Relies on the attribute `_bucket_type`."""
    return cast(object, factory._bucket_type)


def bucket_bounds(buckets: LinearBucket) -> tuple[float, float, int]:
    """Start of the first bucket, width and number of buckets. Relies on the attributes `_start` and `_width`."""
    return buckets._start, buckets._width, buckets.num_buckets()


def filled_histogram(start: float, width: float, number: int, counts: Mapping[int, int]) -> Histogram:
    """A histogram with some values.

    Relies on the attributes `_buckets`, `_num_records`, `_num_bot_records` and `_num_top_records`.

    Args:
        start: Start of the first bucket.
        width: Width of a bucket.
        number: Number of buckets.
        counts: Bucket -> number of values in it; bucket -1 is below all others, bucket `number` above.
    """
    histogram = Histogram(LinearBucket(start, width, number))
    for bucket, count in counts.items():
        if bucket < 0:
            histogram._num_bot_records += count
        elif bucket >= number:
            histogram._num_top_records += count
        else:
            histogram._buckets[bucket] += count
            histogram._num_records += count
    return histogram
