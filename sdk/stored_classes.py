"""Everything whose classes can be in a checkpoint: importing this module registers them all (`lowlevel.stored_names`).

What reads a checkpoint comes here by itself for a name that nobody has registered yet: see `headrace.stored`.
"""

from headrace.sdk.combinefns import composite, exact_sums, numeric, quantile_sketch, unique_sketch
from headrace.sdk.expressions import element_schema, join_keys
from headrace.sdk.functions import changelog
from headrace.sdk.io import dead_letters, timestamps
from headrace.sdk.io.files import fileio, filesystems, write_to_files
from headrace.sdk.io.kafka import record, sink
from headrace.sdk.io.parquet import parquet_source
from headrace.sdk.io.text import line_ranges
from headrace.sdk.model import late_element, panes, row, special_outputs
from headrace.sdk.operators.combining import (
    aggregates,
    combine_buffer,
    list_reducers,
    moment_reducers,
    quantile_reducer,
    session_lifting,
    sketch_reducers,
)
from headrace.sdk.operators.side_inputs import gate_inputs
from headrace.sdk.operators.vectorized.state import window_table
from headrace.sdk.splittable import offset_range
from headrace.sdk.transforms.util import group_into_batches
from headrace.sdk.triggers import trigger
from headrace.sdk.userstate import timers
from headrace.sdk.windows import bounded, slices, windowing

MODULES = (
    aggregates,
    bounded,
    changelog,
    combine_buffer,
    composite,
    dead_letters,
    element_schema,
    exact_sums,
    fileio,
    filesystems,
    gate_inputs,
    group_into_batches,
    join_keys,
    late_element,
    line_ranges,
    list_reducers,
    moment_reducers,
    numeric,
    offset_range,
    panes,
    parquet_source,
    quantile_reducer,
    quantile_sketch,
    record,
    row,
    session_lifting,
    sink,
    sketch_reducers,
    slices,
    special_outputs,
    timers,
    timestamps,
    trigger,
    unique_sketch,
    window_table,
    windowing,
    write_to_files,
)
"""A test compares them with all modules that register a class."""
