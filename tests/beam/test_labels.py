"""Labels of Beam's programs: no line of a lambda is in the names of state; errors and metrics have Beam's own."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.transforms.fully_qualified_named_transform import FullyQualifiedNamedTransform
from apache_beam.utils.python_callable import PythonCallableWithSource

from headrace.lowlevel.topology.topology import UNSHARED, Topology
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.labels import StableLabels, TranslatedPipeline
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.run.options import engine_options
from headrace.runners.beam.translation import Translation
from headrace.runners.local import LocalRunner


def compiled(pipeline: Pipeline) -> Topology:
    """The topology of a pipeline of Beam."""
    root, options = pipeline.transforms_stack[0], engine_options(PipelineOptions([]))
    translated = TranslatedPipeline(LocalRunner(), options, StableLabels(root))
    Translation(translated, RULES).translate(root)
    return translated.topology()


def names(pipeline: Pipeline) -> list[str]:
    """The names under which a checkpoint has state."""
    return sorted(compiled(pipeline).keyed)


def scaled(values: Iterable[int], by: int = 1) -> int:
    return by * sum(values)


class Scale:
    def __call__(self, pair: Any, *sides: Any) -> Any:
        return pair


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def Total(pairs: Any, function: Any) -> Any:
    """A composite that is named after its function."""
    return pairs | beam.Map(function) | beam.CombinePerKey(sum)


STEPS = {
    "beam.CombinePerKey(lambda v: sum(v))": "CombinePerKey(<lambda v: sum(v)>)",
    "beam.CombinePerKey(functools.partial(scaled, by=3))": "CombinePerKey(<partial scaled(by=3)>)",
    "beam.Map(lambda pair, side: pair, beam.pvalue.AsList(pairs))": "Map(<lambda pair, side: pair>)#gate",
    "beam.Map(Scale(), beam.pvalue.AsList(pairs))": "Map(<Scale object>)#gate",
    "beam.FlatMap(lambda pair, side: [pair], beam.pvalue.AsList(pairs))": "FlatMap(<lambda pair, side: [pair]>)#gate",
    "beam.Filter(lambda pair, side: side, beam.pvalue.AsList(pairs))": "Filter(<lambda pair, side: side>)#gate",
    "Total(lambda pair: pair)": "Total(<lambda pair: pair>)/CombinePerKey(sum)",
    "beam.CombinePerKey(sum)": "CombinePerKey(sum)",
    "'mine' >> beam.CombinePerKey(lambda v: sum(v))": "mine",
    "'Sum <lambda at x.py:3>' >> beam.CombinePerKey(lambda v: sum(v))": "Sum <lambda at x.py:3>",
}


def program(steps: Iterable[str], path: Path, above: str = "") -> Pipeline:
    """The pipeline of a program's text."""
    lines = [above, "pipeline = beam.Pipeline()", "pairs = pipeline | beam.Create([('a', 1)])"]
    text = "\n".join([*lines, *(f"pairs | {step}" for step in steps)])
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    scope: dict[str, Any] = {"beam": beam, "functools": functools, "scaled": scaled, "Scale": Scale, "Total": Total}
    exec(compile(text, str(path), "exec", dont_inherit=True), scope)
    pipeline: Pipeline = scope["pipeline"]
    return pipeline


@pytest.mark.parametrize(("step", "name"), STEPS.items())
def test_other_lines_are_not_in_the_names_of_state(step: str, name: str, tmp_path: Path) -> None:
    once = names(program([step], tmp_path / "program.py"))
    again = names(program(["beam.Map(lambda pair: pair)", step], tmp_path / "program.py", "# a comment\n\n\n"))
    assert name in once
    assert once == again


def test_steps_that_are_alike_are_numbered_and_described(tmp_path: Path) -> None:
    step = "beam.CombinePerKey(lambda v: sum(v))"
    topology = compiled(program([step, "beam.Map(lambda pair: pair) | " + step], tmp_path / "program.py"))
    moved = compiled(program([step, "beam.Map(lambda pair: pair) | " + step], tmp_path / "program.py", "\n\n#\n"))
    name = STEPS[step]
    first, second = topology.default_names[name], topology.default_names[f"{name}_2"]
    assert (first[:7], second[:7]) == ("1 of 2,", "2 of 2,")
    assert first[7:] != second[7:], "their inputs differ"
    assert moved.default_names == topology.default_names
    assert compiled(program([step], tmp_path / "program.py")).default_names == {name: UNSHARED}


def test_errors_and_metrics_have_the_labels_of_beam() -> None:
    with beam.Pipeline(HeadraceRunner("LocalRunner")) as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(lambda number: Metrics.counter("mine", "seen").inc(number))
    (counter,) = pipeline.result.metrics().query()["counters"]
    assert counter.key.step.startswith("Map(<lambda at test_labels.py:")
    failing = beam.Pipeline(HeadraceRunner("LocalRunner"))
    _ = failing | beam.Create([0]) | beam.Map(lambda number: 1 / number)
    with pytest.raises(ZeroDivisionError, match=r"while running 'Map\(<lambda at test_labels.py:"):
        failing.run()


def test_a_variable_that_is_not_assigned_yet_is_no_fault_of_a_label() -> None:
    pipeline = beam.Pipeline()
    step = beam.Map(lambda pair: (pair[0], later))
    _ = pipeline | beam.Create([("a", 1)]) | step | beam.GroupByKey()
    assert names(pipeline) == ["GroupByKey"]
    later = 1


def test_a_transform_from_source_code_keeps_its_label() -> None:
    source = """
class Added(beam.PTransform):
    def __init__(self, what):
        self._what = what

    def expand(self, texts):
        return texts | beam.Map(lambda text: (text + self._what, 1)) | beam.GroupByKey()
"""
    made = PythonCallableWithSource(source)
    pipeline = beam.Pipeline()
    with FullyQualifiedNamedTransform.with_filter("*"):
        _ = pipeline | beam.Create(["a"]) | FullyQualifiedNamedTransform("__constructor__", (made, "x"), {})
    assert names(pipeline) == ["FullyQualifiedNamedTransform/Added/GroupByKey"]
