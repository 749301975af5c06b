"""Approximate counts and quantiles stay within their error, in whatever parts values are combined."""

from __future__ import annotations

import math
import os
import pickle
import random
import subprocess
import sys
from bisect import bisect_left, bisect_right
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.records.column_batch import Single
from headrace.sdk.combinefns.quantile_sketch import ApproximateQuantilesCombineFn, QuantileSketch
from headrace.sdk.combinefns.unique_sketch import ApproximateUniqueCombineFn
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.value_columns import ElementColumns
from headrace.sdk.transforms.aggregation.approximations import ApproximateUnique

KEYS = st.one_of(st.integers(-50, 50), st.text(max_size=2), st.booleans(), st.none(), st.floats(0, 3).map(round))


def in_parts(combine_fn, elements, cuts):
    """The result of elements that are combined in parts, each part stored and read again."""
    borders = [0, *sorted(cut % (len(elements) + 1) for cut in cuts), len(elements)]
    parts = []
    for begin, end in pairwise(borders):
        part = combine_fn.add_inputs(combine_fn.create_accumulator(), elements[begin:end])
        parts.append(pickle.loads(pickle.dumps(combine_fn.compact(part))))
    merged = combine_fn.merge_accumulators(parts)
    return combine_fn.extract_output(pickle.loads(pickle.dumps(merged)))


@given(st.lists(KEYS, max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_few_different_values_are_counted_exactly(values, cuts):
    different = len({(type(value), value) for value in values})
    assert in_parts(ApproximateUniqueCombineFn(300), values, cuts) == different


@given(
    st.lists(st.integers(0, 200), min_size=33, max_size=300), st.lists(st.integers(0, 300), max_size=4), st.integers()
)
def test_a_sketch_depends_on_nothing_but_the_values(values, cuts, seed):
    combine_fn = ApproximateUniqueCombineFn(16)
    expected = combine_fn.add_inputs(combine_fn.create_accumulator(), values)
    assert in_parts(combine_fn, random.Random(seed).sample(values, len(values)), cuts) == expected.estimate()
    [reducer] = reducers_of(combine_fn).parts
    zeros = np.zeros(len(values), np.int64)
    lifted, cut = reducer.lifted(ElementColumns(Single(0), [pa.array(values)])), min(len(values), *cuts, 100)
    parts = [reducer.reduced(zeros[: len(part)], 1, part) for part in (lifted[:cut], lifted[cut:]) if len(part)]
    kept = reducer.reduced(zeros[: len(parts)], 1, pa.concat_arrays(parts))
    assert reducer.results(kept, np.array([len(values)])).to_pylist() == [expected.estimate()]
    [accumulator] = reducer.accumulators(kept, np.array([len(values)]))
    assert pickle.dumps(accumulator) == pickle.dumps(expected)


@pytest.mark.parametrize("error", [0.02, 0.1, 0.5])
def test_many_different_values_within_the_error(error):
    size = ApproximateUnique.parse_input_params(error=error)
    exact = 3 * size + 1000
    estimate = in_parts(ApproximateUniqueCombineFn(size), [*range(exact), *range(exact // 2)], [exact // 3, exact])
    # The error is two standard deviations; four leave nothing to chance, and the hashes are always the same.
    assert abs(estimate - exact) <= 2 * error * exact


NUMBERS = st.lists(st.integers(-30, 30), min_size=1, max_size=200)


@given(NUMBERS, st.lists(st.integers(0, 200), max_size=4), st.integers(2, 12), st.booleans())
def test_few_values_give_the_quantiles_of_a_sorted_list(values, cuts, count, reverse):
    result = in_parts(ApproximateQuantilesCombineFn(count, reverse=reverse), values, cuts)
    ordered = sorted(values, reverse=reverse)
    first, step = (len(values) - 1) / (count - 1), len(values) / (count - 1)
    between = [ordered[min(int(place * step + first), len(values) - 1)] for place in range(count - 2)]
    assert result == [ordered[0], *between, ordered[-1]]


@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 5)), min_size=1, max_size=60), st.integers(2, 9))
def test_a_weight_stands_for_so_many_equal_values(pairs, count):
    spread = [value for value, weight in pairs for _ in range(weight)]
    by_weight = ApproximateQuantilesCombineFn(count, weighted=True).apply(pairs)
    if spread:
        assert by_weight[1:-1] == ApproximateQuantilesCombineFn(count).apply(spread)[1:-1]
    assert (by_weight[0], by_weight[-1]) == (min(pairs)[0], max(pairs)[0])


def by_columns(combine_fn, values, owners, cuts):
    """The accumulators of each owner's values, and the results, which columns give in parts."""
    [reducer] = reducers_of(combine_fn).parts
    count, owners = max(owners) + 1, np.array(owners)
    lifted = reducer.lifted(ElementColumns(Single(0), [pa.array(values)]))
    kept, groups = lifted[:0], owners[:0]
    for begin, end in pairwise([0, *cuts, len(values)]):
        part = reducer.reduced(owners[begin:end], count, lifted[begin:end])
        present = np.isin(np.arange(count), owners[begin:end])
        joined = pa.concat_arrays([kept, part.filter(pa.array(present))])
        groups = np.concatenate([groups, np.flatnonzero(present)])
        kept, groups = reducer.reduced(groups, count, joined), np.arange(count)
    counts = np.bincount(owners)
    return reducer.accumulators(kept, counts), reducer.results(kept, counts).to_pylist()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cuts", [[], [4], [9000], [20_000]])
def test_columns_discard_the_values_that_a_sketch_discards(cuts, reverse):
    dice, total = random.Random(len(cuts)), 30_000
    values, owners = (
        [int(dice.gauss(0, 10_000)) for _ in range(total)],
        [*range(3), *dice.choices(range(3), k=total - 3)],
    )
    combine_fn = ApproximateQuantilesCombineFn(30, reverse=reverse)
    accumulators, results = by_columns(combine_fn, values, owners, cuts)
    for owner, (accumulator, result) in enumerate(zip(accumulators, results, strict=True)):
        parts = [
            [value for value, each in zip(values[begin:end], owners[begin:end], strict=True) if each == owner]
            for begin, end in pairwise([0, *cuts, total])
        ]
        expected = combine_fn.merge_accumulators(
            [combine_fn.add_inputs(combine_fn.create_accumulator(), part) for part in parts]
        )
        assert result == combine_fn.extract_output(expected) == combine_fn.extract_output(accumulator)
        assert accumulator.sizes() == expected.sizes() and accumulator.by_rank(False) == expected.by_rank(False)


@pytest.mark.parametrize("kind", ["plain", "weighted", "by key", "columns"])
def test_ranks_of_many_values_are_within_the_error(kind):
    dice, count, total = random.Random(7), 20, 30_000
    values = [int(dice.gauss(0, 1000)) for _ in range(total)]
    combine_fn = ApproximateQuantilesCombineFn(
        count, key=(lambda value: value) if kind == "by key" else None, weighted=kind == "weighted"
    )
    elements = [(value, 2.5) for value in values] if kind == "weighted" else values
    if kind == "columns":
        [result] = by_columns(combine_fn, values, [0] * total, range(1000, total, 3000))[1]
    else:
        result = in_parts(combine_fn, elements, [1000, 20_000])
    ordered = sorted(values)
    assert (result[0], result[-1]) == (ordered[0], ordered[-1])
    for place, value in enumerate(result[1:-1], 1):
        low, high = bisect_left(ordered, value) / total, bisect_right(ordered, value) / total
        assert low - 1 / count <= place / (count - 1) <= high + 1 / count


def test_the_error_is_as_asked_for():
    assert math.isclose(ApproximateUnique.parse_input_params(error=0.02), 4 / 0.02**2)
    # Up to 2,000 values all are kept, whatever the error.
    sizes = [len(pickle.dumps(_filled(epsilon))) for epsilon in (0.003, 0.001, 0.0003)]
    assert sizes[0] < sizes[1] < sizes[2]


def test_results_are_the_same_in_every_process():
    code = (
        "import random; from headrace.sdk.combinefns import quantile_sketch;"
        "Quantiles = quantile_sketch.ApproximateQuantilesCombineFn;"
        "values = [random.Random(7).gauss(0, 1) * n % 1 for n in range(30_000)];"
        "print(Quantiles(7).apply(values), Quantiles(7, weighted=True).apply([(v, 1 + v) for v in values]),"
        "Quantiles(7, key=str).apply(map(str, values)))"
    )
    run = partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = (run(env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2"))
    assert first == second and len(first) > 100


@pytest.mark.parametrize("count", [2, 3, 11, 101])
def test_a_thousand_values_are_exact(count):
    values = random.Random(count).sample(range(1001), 1001)
    assert in_parts(ApproximateQuantilesCombineFn(11), values, [300, 700]) == list(range(0, 1001, 100))
    ordered = in_parts(ApproximateQuantilesCombineFn(count), values, [5])
    assert all(abs(value - place * 1000 / (count - 1)) <= 1 for place, value in enumerate(ordered))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(1e-9, 1e9)), min_size=1, max_size=80),
    st.lists(st.integers(0, 80), max_size=3),
)
def test_nothing_of_the_weight_is_lost_when_values_are_given_up(pairs, cuts):
    parts = [QuantileSketch(8, 20) for _ in range(2)]
    half = cuts[0] % (len(pairs) + 1) if cuts else 0
    for part, its in zip(parts, (pairs[:half], pairs[half:]), strict=True):
        part.add(its, None)
    parts[0].merge(pickle.loads(pickle.dumps(parts[1])))
    kept = parts[0].by_rank(False)
    assert math.isclose(sum(weight for _, weight in kept), sum(weight for _, weight in pairs))
    assert parts[0].extremes() == (min(value for value, _ in pairs), max(value for value, _ in pairs))
    assert [value for value, _ in kept] == sorted(value for value, _ in kept) and len(kept) <= len(pairs)


def _filled(epsilon):
    combine_fn = ApproximateQuantilesCombineFn.create(5, epsilon)
    accumulator = combine_fn.create_accumulator()
    for begin in range(0, 50_000, 500):
        accumulator = combine_fn.add_inputs(accumulator, range(begin, begin + 500))
    return accumulator
