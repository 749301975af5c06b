"""`remove_input` is the inverse of `add_input`, whatever else is added and merged."""

from __future__ import annotations

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk.combinefns.collecting import (
    CountDistinctCombineFn,
    LatestCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.combinefns.combine_fn import CombineFn, curried
from headrace.sdk.combinefns.composite import GlobalWindowMark, SingleInputTupleCombineFn, SkippingMarks, TupleCombineFn
from headrace.sdk.combinefns.numeric import (
    AllFn,
    AnyFn,
    CountCombineFn,
    CountNonNullCombineFn,
    MaxFn,
    MeanCombineFn,
    SumFn,
)
from headrace.sdk.combinefns.variance import StandardDeviationFn, VarianceFn


class Scaled(CombineFn):
    """A user's own, whose methods take a further argument."""

    def create_accumulator(self, factor):
        return 0

    def add_input(self, accumulator, element, factor):
        return accumulator + factor * element

    def remove_input(self, accumulator, element, factor):
        return accumulator - factor * element

    def merge_accumulators(self, accumulators, factor):
        return sum(accumulators)

    def extract_output(self, accumulator, factor):
        return accumulator


class SumOfSquares(SumFn):
    """Adds in a way that `SumFn.remove_input` does not undo."""

    def add_input(self, accumulator, element):
        return accumulator + element * element


INVERTIBLE = [
    SumFn(),
    CountCombineFn(),
    CountNonNullCombineFn(),
    VarianceFn(),
    StandardDeviationFn(population=True),
    MeanCombineFn(),
    AnyFn(),
    AllFn(),
    ToListCombineFn(),
    ToSetCombineFn(),
    CountDistinctCombineFn(),
    SingleInputTupleCombineFn(sum, CountCombineFn(), ToSetCombineFn()),
    curried(Scaled(), (3,), {}),
    SkippingMarks(MeanCombineFn()),
]
NUMBERS = st.lists(st.integers(-3, 3), max_size=12)


def result(combine_fn, accumulator):
    """What stands for the result where the order of a list does not matter and nan is equal to itself."""
    output = combine_fn.extract_output(accumulator)
    if isinstance(output, list):
        return sorted(output)
    return "nan" if output != output else output


@pytest.mark.parametrize("combine_fn", INVERTIBLE, ids=lambda fn: fn.default_label())
@given(kept=NUMBERS, taken_back=NUMBERS, later=NUMBERS, random=st.randoms(use_true_random=False))
def test_what_is_taken_back_was_never_there(combine_fn, kept, taken_back, later, random):
    assert combine_fn.is_invertible()
    mixed = kept + taken_back
    random.shuffle(mixed)
    accumulator = combine_fn.add_inputs(combine_fn.create_accumulator(), mixed)
    more = combine_fn.add_inputs(combine_fn.create_accumulator(), later)
    accumulator = cloudpickle.loads(cloudpickle.dumps(combine_fn.compact(accumulator)))
    accumulator = combine_fn.merge_accumulators([accumulator, more])
    for element in taken_back:
        accumulator = combine_fn.remove_input(accumulator, element)
    never = combine_fn.add_inputs(combine_fn.create_accumulator(), kept + later)
    assert result(combine_fn, accumulator) == result(combine_fn, never)


@given(st.lists(st.tuples(st.integers(), st.integers()), min_size=1))
def test_items_of_tuples_are_taken_back_one_from_each_part(pairs):
    combine_fn = TupleCombineFn(sum, CountCombineFn())
    accumulator = combine_fn.add_inputs(combine_fn.create_accumulator(), pairs)
    assert combine_fn.remove_input(accumulator, pairs[0]) == (sum(a for a, _ in pairs[1:]), len(pairs) - 1)


@pytest.mark.parametrize(
    "combine_fn",
    [
        MaxFn(),
        TopCombineFn(2),
        LatestCombineFn(),
        CombineFn.from_callable(max),
        SumOfSquares(),
        curried(MaxFn(), (), {}),
        curried(lambda values, factor: factor * sum(values), (3,), {}),
        SkippingMarks(MaxFn()),
        SingleInputTupleCombineFn(sum, max),
        TupleCombineFn(sum, max),
    ],
)
def test_who_has_none_says_so(combine_fn):
    assert not combine_fn.is_invertible()
    if type(combine_fn).remove_input is CombineFn.remove_input:
        with pytest.raises(TypeError, match="has no inverse: it does not define remove_input"):
            combine_fn.remove_input(None, 1)


def test_marks_are_not_taken_back():
    skipping = SkippingMarks(CountCombineFn())
    assert skipping.remove_input(3, GlobalWindowMark.MARK) == 3
    assert skipping.remove_input(3, "element") == 2
