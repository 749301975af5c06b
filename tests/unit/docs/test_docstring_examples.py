"""Every public name has an example in its docstring, which runs as a doctest, but for the names listed here."""

from __future__ import annotations

import inspect

import pytest

from headrace.options.pipeline_options import PipelineOptions, option_classes
from tests.pages import DOCS, ON_SPARK, blocks
from tests.publicapi import public_names

NEEDS_SPARK = {
    "headrace.io.ReadFromDataFrame",
    "headrace.io.ReadFromSpark",
    "headrace.runners.spark.SparkRunner",
    "headrace.runners.spark.WriteToSpark",
}
"""Names that need a Spark session, which doctests do not have; a page that runs on Spark uses each."""
WITHOUT_EXAMPLE = {
    "headrace.io.filesystem.ReachError": "only a file system that fails raises it",
    "headrace.io.kafka.KafkaReadError": "only a broker that fails raises it",
    "headrace.io.kafka.KafkaWriteError": "only a broker that fails raises it",
    "headrace.io.kafka_values.RegistryError": "only a schema registry that fails raises it, after some seconds",
    "headrace.runners.StoppedError": "only a signal raises it, which would reach the tests",
    "headrace.runners.spark.SparkJobError": "only a job of Spark that fails raises it",
    "headrace.runners.spark.SparkSetupError": "only a Spark that does not fit raises it",
    "headrace.runners.spark.StateDiskError": "only a full disk raises it",
    "headrace.runners.spark.StreamError": "only a streaming query that fails raises it",
    "headrace.typehints.disable_type_annotations": "its effect lasts as long as the process",
    "headrace.transforms.trigger.Progress": "another name of Python's object",
    "headrace.typehints.KV": "another name of Python's tuple",
}


def names() -> dict[str, object]:
    """Classes and functions by their first public path; other values have no docstring that doctest finds."""
    found: dict[int, tuple[str, object]] = {}
    for path, what in public_names():
        if (inspect.isclass(what) or inspect.isfunction(what)) and not _has_no_effect(what):
            found.setdefault(id(what), (path, what))
    return dict(found.values())


def _has_no_effect(what: object) -> bool:
    """Whether it is one of Beam's classes of options that are only accepted; all of them are used in one way."""
    is_options = inspect.isclass(what) and issubclass(what, PipelineOptions) and what is not PipelineOptions
    return is_options and what not in option_classes()


def has_example(what: object) -> bool:
    """Whether the docstring of a class, of its `__init__` or of a function has a session."""
    texts = [what.__doc__]
    if inspect.isclass(what) and "__init__" in vars(what):
        texts.append(vars(what)["__init__"].__doc__)
    return any(">>> " in (text or "") for text in texts)


def test_every_public_name_has_an_example() -> None:
    exempt = NEEDS_SPARK | WITHOUT_EXAMPLE.keys()
    assert {path for path, what in names().items() if not has_example(what)} == exempt


@pytest.mark.parametrize("path", sorted(NEEDS_SPARK))
def test_a_page_that_runs_on_spark_uses_what_needs_it(path: str) -> None:
    call = f"{path.rpartition('.')[2]}("
    pages = [blocks(page.read_text(encoding="utf-8")) for page in DOCS.rglob("*.md")]
    assert any(call in block.code for page in pages for block in page if block.remark == ON_SPARK)
