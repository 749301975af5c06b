"""What is no number, or not every one: combining by columns takes it, or refuses it, as combining by key does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, StepError
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.combinefns.combine_fn import CombineFn
from headrace.sdk.combinefns.composite import TupleCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, MaxFn, MeanCombineFn, MinFn, SumFn
from headrace.sdk.compiler import execution_strategy
from headrace.sdk.expressions.element_schema import Single, Tuple, pair
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.vectorized.column_grouping import ColumnGrouping
from headrace.sdk.windows import SlidingWindows
from headrace.sdk.windows.windowing import Windowing
from headrace.transforms import window
from tests.properties.grouping_strategies import Combining, Step, Way, by_columns, by_key, of_each_key

KEYS = {
    "text": pa.array(["a", "", "a"]),
    "large": pa.array(["a", "b", "a"], pa.large_string()),
    "int8": pa.array([1, -1, 1], pa.int8()),
    "uint64": pa.array([(1 << 64) - 1, 0, (1 << 64) - 1], pa.uint64()),
    "flag": pa.array([True, False, True]),
    "float": pa.array([0.0, -0.0, 1.5]),
    "nulls": pa.array(["a", None, None]),
    "null numbers": pa.array([1, None, 1]),
    "coded": pa.array(["a", "b", "a"]).dictionary_encode(),
    "day": pa.array([date(2020, 2, 29), date(1600, 1, 1), date(1600, 1, 1)]),
    "decimal": pa.array([Decimal("1.50"), Decimal(0), Decimal("1.5")], pa.decimal128(10, 2)),
}
VALUES = {
    "int8": pa.array([127, 127, 127], pa.int8()),
    "uint8": pa.array([255, 255, 255], pa.uint8()),
    "uint64": pa.array([(1 << 64) - 1, 1, (1 << 64) - 1], pa.uint64()),
    "large": pa.array([(1 << 63) - 1, -(1 << 63), (1 << 63) - 1]),
    "float": pa.array([0.5, 0.25, -0.5]),
    "nan": pa.array([float("nan"), 1.0, 2.0]),
    "endless": pa.array([float("inf"), float("-inf"), 2.0]),
    "flag": pa.array([True, False, True]),
    "decimal": pa.array([Decimal("1.50"), Decimal(0), Decimal("1.5")], pa.decimal128(10, 2)),
    "nulls": pa.array([1, None, 2]),
    "text": pa.array(["a", "b", "c"]),
}
COMBINERS: list[CombineFn] = [SumFn(), CountCombineFn(), MeanCombineFn(), MaxFn(), MinFn()]
TIMES = np.array([1, 2, 3]) * SECOND


def outcome(way: Way, combine: CombineFn, *batches: Batch, size: int = 10) -> object:
    """What comes of batches in a bundle each, or what is wrong with them."""
    combining = Combining(Windowing.of(SlidingWindows(size, 4)), combine, way)
    try:
        for batch in batches:
            combining.step(Step([("", 0, 0)], 0, lambda _, batch=batch: batch))
        combining.run([])
    except Exception as error:
        cause = error.cause.splitlines()[-1] if isinstance(error, StepError) else str(error)
        return type(error), cause, getattr(error, "step", None), getattr(error, "key", None)
    assert way is by_key or not combining.stored()
    return of_each_key(combining.panes), combining.counted()


def columns(key: pa.Array, *values: pa.Array, wide: bool = False) -> ColumnBatch:
    """Pairs of a key and a value, or a tuple of values."""
    table = pa.RecordBatch.from_arrays([key, *values], [f"f{number}" for number in range(1 + len(values))])
    value = Tuple(tuple(map(Single, range(1, 1 + len(values))))) if wide else Single(1)
    return ColumnBatch(table, TIMES, pair(Single(0), value))


def as_values(batch: ColumnBatch) -> Batch:
    return Batch(batch.shape.values(batch.table), batch.times.tolist())


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_columns(name: str) -> None:
    batch = columns(KEYS[name], VALUES["int8"])
    assert outcome(by_columns, SumFn(), batch, batch) == outcome(by_key, SumFn(), as_values(batch), as_values(batch))


@pytest.mark.parametrize("combine", COMBINERS, ids=lambda combine: type(combine).__name__)
@pytest.mark.parametrize("name", VALUES)
def test_values_of_columns(name: str, combine: CombineFn) -> None:
    batch = columns(KEYS["text"], VALUES[name])
    expected = outcome(by_key, combine, as_values(batch), as_values(batch))
    assert outcome(by_columns, combine, batch, batch) == expected
    assert outcome(by_columns, combine, as_values(batch), batch) == expected


@pytest.mark.parametrize("width", [1, 3])
def test_tuples_of_another_length_are_refused(width: int) -> None:
    batch = columns(KEYS["text"], *[VALUES["int8"]] * width, wide=True)
    combine = TupleCombineFn(SumFn(), CountCombineFn())
    for given in (batch, as_values(batch)):
        kind, cause, _, key = outcome(by_columns, combine, given)
        assert kind is StepError and "zip()" in cause and key in KEYS["text"].to_pylist()


@pytest.mark.parametrize(
    "make", [lambda: [1, 2], lambda: {1: 0, 2: 0}, lambda: iter([1, 2]), lambda: "12", lambda: 5, lambda: (1, 2, 3)]
)
def test_what_is_no_pair_is_for_the_combiner(make: Callable[[], object]) -> None:
    combine = TupleCombineFn(SumFn(), MaxFn())
    expected = outcome(by_key, combine, Batch([("a", make())], [0]))
    assert outcome(by_columns, combine, Batch([("a", make())], [0])) == expected


class Doubled(SumFn):
    """What a user may make of a combiner that the engine knows."""

    def extract_output(self, accumulator: float) -> float:
        return 2 * accumulator


class Refusing(SumFn):
    def extract_output(self, accumulator: float) -> float:
        raise ValueError(f"{accumulator} is refused")


def compiled(combine: object, values: list[object], rows: list[object] | None = None, into: object = None):
    """A topology that combines values of a key, one in an epoch."""
    injector = BoundedInjector([(("a", value), SECOND) for value in values], 100 * SECOND)
    pairs = beam.Pipeline("LocalRunner", argv=["--no_pipeline_type_check"]) | beam.io.Read(injector)
    out = pairs | beam.WindowInto(into or window.FixedWindows(10)) | "combine" >> beam.CombinePerKey(combine)
    out | beam.io.Write(CallSink(lambda epoch, its: (rows if rows is not None else []).extend(row for row, _ in its)))
    return out.pipeline.topology()


def test_a_combiner_made_of_another_is_its_own() -> None:
    rows: list[object] = []
    topology = compiled(Doubled(), [1, 2], rows)
    assert type(topology.keyed["combine"].computation) is Grouping
    LocalRunner().run_topology(topology)
    assert rows == [("a", 6)]
    assert type(compiled(SumFn(), [1]).keyed["combine"].computation) is ColumnGrouping


def failure(combine: object, values: list[object]) -> tuple[object, ...]:
    with pytest.raises(StepError) as told:
        LocalRunner().run_topology(compiled(combine, values), RunOptions(max_records_per_epoch=1))
    error = told.value
    return error.step, error.key, error.cause.splitlines()[-1]


@pytest.mark.parametrize(
    ("combine", "values", "said"),
    [
        (sum, ["x"], "TypeError: unsupported operand type"),
        (sum, [1, "x"], "TypeError: unsupported operand type"),
        (sum, [1.5, Decimal(1)], "TypeError: unsupported operand type"),
        (max, [1, "x"], "TypeError: '>' not supported"),
        (MeanCombineFn(), [10**400], "OverflowError: integer division result too large"),
    ],
)
def test_an_error_names_step_and_key(combine: object, values: list[object], said: str) -> None:
    found = failure(combine, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution_strategy, "obstacle", lambda *_, **__: "the test")
        expected = failure(combine, values)
    assert found[2].startswith(said)
    assert found[:2] == expected[:2]
