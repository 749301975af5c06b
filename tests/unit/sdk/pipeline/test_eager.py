"""Transforms applied to lists, tuples and dicts of values."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace as beam


class ByParity(beam.DoFn):
    def process(self, element: int) -> Iterator[object]:
        yield beam.pvalue.TaggedOutput("odd", element) if element % 2 else element


def test_a_list_gives_a_list() -> None:
    assert [1, 2, 3] | beam.Map(lambda number: number * number) == [1, 4, 9]
    assert [3, 1] | "Sum" >> beam.CombineGlobally(sum) == [4]
    assert ["a b", "c"] | beam.FlatMap(str.split) | beam.Map(str.upper) == ["A", "B", "C"]
    assert ["a b"] | (beam.FlatMap(str.split) | beam.Map(str.upper)) == ["A", "B"]
    assert [] | beam.Map(str) == []
    assert {1} | beam.Map(str) == ["1"]


def test_tuples_and_dicts_are_several_inputs() -> None:
    left, right = [("a", 1)], [("a", 2), ("b", 3)]
    assert sorted((left, right) | beam.CoGroupByKey()) == [("a", ([1], [2])), ("b", ([], [3]))]
    assert sorted([left, right] | beam.CoGroupByKey()) == [("a", ([1], [2])), ("b", ([], [3]))]
    assert sorted({"l": left, "r": right} | beam.CoGroupByKey()) == [
        ("a", {"l": [1], "r": [2]}),
        ("b", {"l": [], "r": [3]}),
    ]
    assert sorted(([1], [2, 3]) | beam.Flatten()) == sorted([[1], [2, 3]] | beam.Flatten()) == [1, 2, 3]


def test_several_outputs_are_several_lists() -> None:
    outputs = [1, 2, 3] | beam.ParDo(ByParity()).with_outputs("odd", main="even")
    assert [*outputs] == [[2], [1, 3]]
    assert outputs.odd == outputs["odd"] == [1, 3]
    assert outputs.even == outputs[None] == [2]
    assert [*([1, 2, 3] | beam.Partition(lambda number, count: number % count, 2))] == [[2], [1, 3]]
    with pytest.raises(KeyError, match=r"with_outputs\('odd'\)"):
        ([1] | beam.ParDo(ByParity()).with_outputs())["odd"]


def test_a_composite_may_return_a_dict() -> None:
    @beam.ptransform_fn
    def both(numbers: beam.PCollection[int]) -> dict[str, object]:
        return {"count": numbers | beam.combiners.Count.Globally(), "all": (numbers,)}

    assert [1, 2] | both() == {"count": [2], "all": ([1, 2],)}


def test_an_error_is_that_of_the_function() -> None:
    with pytest.raises(ZeroDivisionError):
        [0] | beam.Map(lambda number: 1 / number)


@pytest.mark.parametrize("inputs", [5, "text", (1, 2), {}, (), {"a": 1}])
def test_what_is_no_list_of_elements_is_refused(inputs: object) -> None:
    apply: Callable[[object], object] = beam.Map(str).__ror__
    with pytest.raises(TypeError, match="no list of elements"):
        apply(inputs)


@pytest.mark.parametrize(
    "start",
    ["from headrace.io import ReadAllFromText", "import headrace; ReadAllFromText = headrace.io.ReadAllFromText"],
)
def test_a_program_whose_only_transforms_are_of_io(start: str, tmp_path: Path) -> None:
    """In a process of its own, as other tests import all that there is."""
    (tmp_path / "a.txt").write_text("one\n")
    program = f"{start}\nprint([{str(tmp_path / '*.txt')!r}] | ReadAllFromText())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout == "['one']\n", ended.stderr
