"""Names of Beam that are absent: importing one works, using one says what to use instead."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from collections.abc import Callable

import cloudpickle
import pytest

import headrace as beam
from headrace.absent_names.absent_modules import (
    ABSENT_MODULES,
    ABSENT_NAMES,
    IMPORTED_NAMES,
    IN_MODULES_OF,
    RENAMED,
    AbsentModule,
    absent_attribute,
)
from headrace.absent_names.absent_name import _ALTERNATIVES, AbsentName, AbsentNameError
from headrace.runners.local import LocalRunner
from headrace.sdk.pipeline.runner_choice import find_runner

NAME = AbsentName("transforms.sql.SqlTransform")


def subclass() -> object:
    class Mine(NAME):  # type: ignore[misc]  # an absent name is no class
        pass

    return Mine()


@pytest.mark.parametrize(
    "use",
    [
        lambda: NAME("SELECT 1"),
        lambda: NAME.query,
        lambda: NAME[int],
        lambda: [*NAME],
        lambda: isinstance(1, NAME),
        lambda: issubclass(int, NAME),
        lambda: NAME | beam.Map(print),
        lambda: beam.Create([1]) | NAME,
        lambda: "label" >> NAME,
        subclass,
    ],
)
def test_every_use_says_what_to_use_instead(use: Callable[[], object]) -> None:
    with pytest.raises(AbsentNameError, match=r"SqlTransform, and Headrace has not: use io\.ReadFromSpark") as raised:
        use()
    assert "docs/guide/from-beam.md" in str(raised.value)


def test_modules_can_be_imported_in_every_way() -> None:
    import headrace.io.gcp.bigquery
    from headrace.dataframe import convert
    from headrace.io import gcp
    from headrace.io.gcp import bigquery
    from headrace.io.gcp.bigquery import WriteToBigQuery

    assert gcp.bigquery is bigquery is beam.io.gcp.bigquery is headrace.io.gcp.bigquery
    assert WriteToBigQuery is bigquery.WriteToBigQuery
    assert isinstance(beam.dataframe.convert, AbsentModule) and beam.dataframe.convert is convert
    with pytest.raises(AbsentNameError, match=r"io\.gcp\.bigquery\.WriteToBigQuery"):
        WriteToBigQuery("table")


def test_what_beam_has_not_either_is_an_error_at_once() -> None:
    with pytest.raises(AttributeError, match="module 'headrace' has no attribute 'Maap'"):
        absent_attribute("headrace", "Maap")
    with pytest.raises(AttributeError, match="has no attribute 'Maap'"):
        absent_attribute("headrace.transforms.core", "Maap")
    with pytest.raises(ImportError):
        importlib.import_module("headrace.io.gcp.bigqueery")
    assert not hasattr(beam, "Maap") and not hasattr(beam.transforms.core, "Maap")
    assert not hasattr(beam.io.gcp, "__file__")
    assert not hasattr(NAME, "__wrapped__")


def test_a_subclass_can_be_defined() -> None:
    class Mine(NAME, beam.DoFn):  # type: ignore[misc]  # an absent name is no class
        """Not used."""

    assert issubclass(Mine, beam.DoFn)


def test_names_that_beams_modules_import_from_each_other() -> None:
    assert beam.core is beam.transforms.combiners.core is beam.transforms.core
    assert beam.TimeDomain is beam.transforms.timeutil.TimeDomain
    assert beam.transforms.window.MIN_TIMESTAMP is beam.utils.timestamp.MIN_TIMESTAMP
    assert beam.pipeline.PipelineOptions is beam.options.pipeline_options.PipelineOptions


def test_every_name_that_is_imported_or_renamed_is_here() -> None:
    paths = [
        f"{module}.{path.rpartition('.')[2]}" for module, names in IMPORTED_NAMES.items() for path in names.split()
    ]
    for path in (*paths, *RENAMED):
        module, _, name = f"headrace.{path.lstrip('.')}".rpartition(".")
        found = getattr(importlib.import_module(module), name)
        assert not isinstance(found, AbsentName | AbsentModule), path


def test_runners_of_beam_in_memory_are_the_local_runner() -> None:
    from headrace.runners import DirectRunner
    from headrace.runners.direct.direct_runner import BundleBasedDirectRunner
    from headrace.runners.portability.fn_api_runner.fn_runner import FnApiRunner

    assert DirectRunner is BundleBasedDirectRunner is FnApiRunner is LocalRunner
    assert isinstance(find_runner("apache_beam.runners.portability.fn_api_runner.FnApiRunner"), LocalRunner)


def test_every_absent_name_can_be_imported() -> None:
    for module, names in ABSENT_NAMES.items():
        found = importlib.import_module(f"headrace.{module}".rstrip("."))
        assert all(isinstance(getattr(found, name), AbsentName) for name in names.split()), module
    for parent, names in ABSENT_MODULES.items():
        for name in names.split():
            module = ".".join(part for part in ("headrace", parent, name) if part)
            assert isinstance(importlib.import_module(module), AbsentModule)


def test_no_absent_module_stands_in_the_way_of_one_that_is_here() -> None:
    absent = {f"headrace.{parent}.{name}" for parent, names in ABSENT_MODULES.items() for name in names.split()}
    assert not absent & {found.name for found in pkgutil.walk_packages(beam.__path__, "headrace.")}


def test_every_alternative_belongs_to_a_name() -> None:
    absent = {f"{module}.{name}" for module, names in ABSENT_NAMES.items() for name in names.split()}
    absent |= {f"{parent}.{name}".lstrip(".") for parent, names in ABSENT_MODULES.items() for name in names.split()}
    below = {path[:end] for path in absent for end in range(len(path) + 1)}
    assert not {path for path in _ALTERNATIVES if path not in below}


def test_functions_that_hold_absent_names_are_sent_to_workers() -> None:
    gcp = beam.io.gcp
    assert pickle.loads(cloudpickle.dumps(lambda: (NAME, gcp)))() == (NAME, gcp)


ELSEWHERE = {
    "headrace.io": "io.fileio.WriteToFiles io.fileio.MatchFiles io.fileio.MatchAll io.fileio.ReadMatches "
    "io.fileio.MatchContinuously io.filesystems.FileSystems io.filesystem.CompressionTypes io.kafka.ReadFromKafka "
    "io.kafka.WriteToKafka io.kafka.KafkaRecord",
    "headrace": "io.ReadFromText transforms.window.FixedWindows transforms.combiners.Mean lowlevel.Topology "
    "options.pipeline_options.PipelineOptions",
}
"""Package -> paths of names that are not in it, but in a module that is imported with it."""


def _said(package: str, name: str) -> str:
    with pytest.raises(AttributeError) as raised:
        getattr(importlib.import_module(package), name)
    return str(raised.value)


def test_names_that_are_in_a_module_of_a_package_are_said_and_those_that_are_spelt_alike() -> None:
    places = ELSEWHERE | {f"headrace.{package}": paths for package, paths in IN_MODULES_OF.items()}
    places["headrace.io"] += f" {ELSEWHERE['headrace.io']}"
    for package, paths in places.items():
        for path in paths.split():
            module, _, name = f"headrace.{path}".rpartition(".")
            assert hasattr(importlib.import_module(module), name)
            assert _said(package, name) == f"module {package!r} has no attribute {name!r}; from {module} import {name}"
    both = "from headrace.io.fileio import FileMetadata or from headrace.io.filesystem import FileMetadata"
    assert _said("headrace.io", "FileMetadata").endswith(f"; {both}")
    with pytest.raises(AttributeError) as raised:
        _ = beam.io.ReadFromCvs
    # Python looks for what is spelt alike by these, when it shows the error.
    assert (raised.value.name, raised.value.obj) == ("ReadFromCvs", beam.io)
