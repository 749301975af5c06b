"""Arguments of combiners that are changed between two runs of a program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

import headrace as beam
from headrace.lowlevel.errors import TopologyChangeError
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms import userstate

Top, Sample = beam.combiners.Top, beam.combiners.Sample
Unique, Quantiles = beam.ApproximateUnique, beam.ApproximateQuantiles
Transform = Callable[[], object]


def _run(folder: Path, made: object) -> None:
    with beam.Pipeline("LocalRunner", options=PipelineOptions(checkpoint=str(folder))) as pipeline:
        pairs = pipeline | beam.Create([("tea", 3), ("tea", 1), ("jam", 2)])
        _ = pairs | "Combined" >> cast(beam.PTransform, made)


CHANGED: dict[str, tuple[Transform, Transform, str]] = {
    "direction": (
        lambda: Top.LargestPerKey(2),
        lambda: Top.SmallestPerKey(2),
        "the combiner's arguments n=2, key=None, reverse=True instead of n=2, key=None, reverse=False",
    ),
    "number": (lambda: Top.LargestPerKey(2), lambda: Top.LargestPerKey(3), "n=3, key=None"),
    "sort key": (lambda: Top.LargestPerKey(2), lambda: Top.LargestPerKey(2, key=abs), "key=abs"),
    "sample": (lambda: Sample.FixedSizePerKey(1), lambda: Sample.FixedSizePerKey(2), "n=2 instead of n=1"),
    "sketch": (
        lambda: beam.ApproximateUnique.PerKey(size=16),
        lambda: beam.ApproximateUnique.PerKey(size=999),
        "sketch=1024",
    ),
    "quantiles": (
        lambda: Quantiles.PerKey(3),
        lambda: Quantiles.PerKey(3, key=abs),
        "key=abs",
    ),
    "tuple": (
        lambda: beam.CombinePerKey(beam.combiners.SingleInputTupleCombineFn(sum, beam.combiners.Largest(2))),
        lambda: beam.CombinePerKey(beam.combiners.SingleInputTupleCombineFn(sum, beam.combiners.Largest(3))),
        "n=3",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed_arguments_are_refused(name: str, tmp_path: Path) -> None:
    before, after, said = CHANGED[name]
    _run(tmp_path, before())
    with pytest.raises(TopologyChangeError) as refused:
        _run(tmp_path, after())
    assert said in str(refused.value)
    assert "--discard_stored=Combined" in str(refused.value)
    _run(tmp_path, before())


def test_what_the_stored_values_do_not_depend_on_may_change(tmp_path: Path) -> None:
    _run(tmp_path, Quantiles.PerKey(3))
    _run(tmp_path, Quantiles.PerKey(5, reverse=True))


class Above(beam.CombineFn[int, int, int]):
    """Counts values of at least a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + (element >= self.limit)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class Named(Above):
    """The same, with a limit that it declares."""

    def state_arguments(self) -> dict[str, object]:
        return {"limit": self.limit}


def test_arguments_of_a_combiner_of_ones_own_are_compared_if_it_declares_them(tmp_path: Path) -> None:
    _run(tmp_path / "not", beam.CombinePerKey(Above(1)))
    _run(tmp_path / "not", beam.CombinePerKey(Above(2)))
    _run(tmp_path / "declared", beam.CombinePerKey(Named(1)))
    with pytest.raises(TopologyChangeError, match="limit=2 instead of limit=1"):
        _run(tmp_path / "declared", beam.CombinePerKey(Named(2)))


def _stateful(number: int) -> beam.PTransform:
    class Best(beam.DoFn):
        BEST = userstate.CombiningValueStateSpec("best", beam.combiners.Largest(number))

        def process(self, pair: tuple[str, int], best: object = beam.DoFn.StateParam(BEST)) -> None:
            cast(userstate.CombiningValueRuntimeState, best).add(pair[1])

    return beam.ParDo(Best())


def test_arguments_of_a_states_combiner_are_compared(tmp_path: Path) -> None:
    _run(tmp_path, _stateful(2))
    with pytest.raises(TopologyChangeError, match="arguments of the combiner of state 'best' n=3"):
        _run(tmp_path, _stateful(3))
