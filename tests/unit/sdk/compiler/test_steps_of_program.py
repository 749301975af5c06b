"""What `headrace explain` names: the steps of the program, and none that only the engine knows."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.runners.local import LocalRunner
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.sdk.compiler.execution_strategy import steps_of_program
from headrace.transforms.window import FixedWindows


class Sums(beam.PTransform):
    """A transform of the program's own."""

    def expand(self, inputs):
        return inputs | "Pairs" >> beam.Map(lambda row: (row, 1)) | "Add" >> beam.CombinePerKey(sum)


@beam.ptransform_fn
def Totals(inputs):
    return inputs | "Add" >> beam.CombinePerKey(sum)


def told(build):
    pipeline = beam.Pipeline(LocalRunner())
    build(pipeline | beam.Create(["a", "b"]))
    steps = steps_of_program(pipeline.steps, execution_strategies(pipeline))
    assert sum(len(step.parts) for step in steps) == len(execution_strategies(pipeline))
    return {step.strategy.step: str(step.strategy) for step in steps}


def test_parts_of_a_sink_are_the_sink(tmp_path):
    reason = "a part of the transform takes one element at a time"
    [text] = told(lambda words: words | "Out" >> beam.io.WriteToText(f"{tmp_path}/out", num_shards=2)).values()
    assert text == f"step 'Out' processes all keys at once; its elements come one by one: {reason}"
    rows = told(lambda words: words | beam.WindowInto(FixedWindows(1)) | "Out" >> beam.io.WriteToText(f"{tmp_path}/o"))
    assert {*rows} == {"WindowInto", "Out"}
    assert "_" not in rows["Out"]


def test_a_reason_names_the_step_of_the_program(tmp_path):
    def build(words):
        named = words | "Each" >> beam.Map(lambda word: ord(word)) | "Some" >> beam.Distinct()
        return named | "Out" >> beam.io.WriteToText(f"{tmp_path}/out")

    found = told(build)
    assert [*found] == ["Each", "Some", "Out"]
    assert "/" not in "".join(found.values()).replace("all/", "")


def test_a_grouping_counts_more_than_the_making_of_its_keys():
    found = told(lambda words: words | beam.GroupBy(len).aggregate_field(str.upper, max, "m"))
    [text] = found.values()
    assert text.startswith("step 'GroupBy(key)' processes all keys at once; its elements come one by one: len is ")
    [text] = told(lambda words: words | "Best" >> beam.combiners.Top.Of(3)).values()
    assert text == "step 'Best' processes all keys at once"
    [text] = told(lambda words: words | "Best" >> beam.combiners.Top.Of(3, key=len)).values()
    assert text == (
        "step 'Best' processes key by key: the engine does not combine columns as TopCombineFn with these arguments "
        "does; a VectorizedCombineFn can"
    )


def test_parts_of_a_transform_of_the_program_stay():
    assert [*told(lambda words: words | Sums())] == ["Sums/Pairs", "Sums/Add"]
    assert [*told(lambda words: words | "P" >> beam.Map(lambda word: (word, 1)) | Totals())] == ["P", "Totals/Add"]


def test_a_function_of_the_engine_is_one_step():
    windows = told(lambda words: words | beam.WindowInto(FixedWindows(1)) | "Once" >> beam.Distinct())
    assert [*windows] == ["WindowInto", "Once"]


@pytest.mark.parametrize("label", ["Out's", 'Out "new"'])
def test_labels_with_quotation_marks(tmp_path, label):
    build = lambda words: words | label >> beam.Distinct() | "Out" >> beam.io.WriteToText(f"{tmp_path}/out")  # noqa: E731
    assert [*told(build)] == [label, "Out"]
