"""Options are written in one way, listed from where they are declared, and refused where nobody declares them."""

from __future__ import annotations

import gc
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as beam
from headrace.cli.app import app
from headrace.cli.options import OptionEntry, entries, page
from headrace.options.beam_options import BEAM_OPTIONS
from headrace.options.known_options import VARIABLES, check_known
from headrace.options.option import Option, declared
from headrace.options.pipeline_options import (
    DebugOptions,
    EngineOptions,
    GoogleCloudOptions,
    PipelineOptions,
    WorkerOptions,
    option_classes,
)
from headrace.runners.engine.options import RunOptions, run_options

PAGE = Path(__file__).parents[4] / "docs" / "options.md"
PROGRAM = """
import headrace as beam

class Threshold(beam.options.pipeline_options.PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--threshold", type=int, default=0, help="points that count")

def pipeline(pipeline):
    least = pipeline.options.view_as(Threshold).threshold
    numbers = pipeline | beam.Create([1, 2, 3]) | beam.Filter(lambda number: number >= least)
    numbers | beam.io.WriteToText("out")
"""


@pytest.fixture(autouse=True)
def classes_of_options_go() -> Iterator[None]:
    """A class of options counts in every program of its process, also one that requires an option, until it is gone."""
    yield
    gc.collect()


def run(options: PipelineOptions) -> None:
    """Run a pipeline that fails the test if it begins."""
    pipeline = beam.Pipeline("LocalRunner", options)
    pipeline | beam.Create([1]) | beam.Map(lambda number: pytest.fail("it runs"))
    pipeline.run()


@pytest.mark.parametrize(
    "options",
    [
        lambda: PipelineOptions(["--chekpoint=state"]),
        lambda: PipelineOptions(["--chekpoint", "state"]),
        lambda: PipelineOptions([], chekpoint="state"),
        lambda: PipelineOptions.from_dictionary({"chekpoint": "state"}),
        lambda: PipelineOptions.from_dictionary({"chekpoint": None}),
        lambda: PipelineOptions.from_dictionary({"chekpoint": False}),
        lambda: PipelineOptions(["--runner=LocalRunner"]).view_as(EngineOptions),
    ],
)
def test_an_option_that_nobody_declares_is_refused_before_anything_runs(options, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program.py"])
    given = options()
    if isinstance(given, EngineOptions):
        given.add_flags(["--chekpoint=state"])
    with pytest.raises(
        ValueError, match=r"there is no option --chekpoint; did you mean --checkpoint\? Nothing has run"
    ):
        run(given)


def test_the_keyword_of_a_flag_that_switches_something_off_is_told():
    with pytest.raises(ValueError, match=r"no_pipeline_type_check is no keyword; .* is pipeline_type_check=False"):
        run(PipelineOptions(no_pipeline_type_check=True))


def test_each_of_several_is_named():
    with pytest.raises(ValueError) as told:
        check_known(PipelineOptions(["stray", "--chekpoint", "state", "--quite_another=5", "--intervals=2"]))
    said = str(told.value)
    assert "'stray' belongs to no option; write --name=value" in said
    assert "no option --chekpoint; did you mean --checkpoint?" in said and "'state'" not in said
    assert "no option --quite_another" in said and "--intervals" not in said


def test_a_raw_topology_is_no_way_around():
    with pytest.raises(ValueError, match="no option --chekpoint"):
        run_options(PipelineOptions(["--chekpoint=state"]))


def test_a_slip_in_the_arguments_of_the_program_is_refused_and_its_own_flags_are_not(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program.py", "input.txt", "--input", "a", "-x", "--verbose"])
    check_known(PipelineOptions())
    monkeypatch.setattr(sys, "argv", ["program.py", "--input=a", "--chekpoint=state"])
    with pytest.raises(ValueError, match=r"no option --chekpoint \(in the program's arguments, program.py\); did you"):
        run(PipelineOptions())


def test_options_of_a_class_that_is_declared_later_count():
    options = PipelineOptions(["--points_that_count=3", "--quick"], most_points=9)

    class Points(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--points_that_count", type=int, required=True)
            parser.add_argument("--most_points", type=int)
            parser.add_argument("--quick", action="store_true")

    check_known(options)
    assert (options.view_as(Points).points_that_count, options.view_as(Points).most_points) == (3, 9)
    # One that is required of another part of the program is not required here.
    check_known(PipelineOptions(["--intervals", "3", "--skew_limit", "3"]))


def test_a_value_is_not_set_under_a_name_that_nobody_declares():
    options = PipelineOptions([])
    with pytest.raises(AttributeError, match="no option 'chekpoint'; did you mean 'checkpoint'"):
        options.view_as(EngineOptions).chekpoint = "state"
    options.view_as(EngineOptions).checkpoint = "state"
    assert options.view_as(EngineOptions).checkpoint == "state"


def test_hyphens_are_underscores():
    options = PipelineOptions(["--latency-aim=5", "--no_balance", "--no-one-task-epochs", "--no-pipeline-type-check"])
    check_known(options)
    view = options.view_as(EngineOptions)
    assert (view.latency_aim, view.balance, view.one_task_epochs) == (5.0, False, False)


def test_what_a_dictionary_turns_off_is_off():
    view = PipelineOptions.from_dictionary({"balance": False, "record": False, "intervals": 2}).view_as(EngineOptions)
    assert (view.balance, view.record, view.intervals) == (False, False, 2)


def test_flags_that_are_added_count_also_where_they_say_the_default():
    options = PipelineOptions(["--no_balance", "--intervals=3"])
    options.add_flags(["--balance"])
    assert (options.view_as(EngineOptions).balance, options.view_as(EngineOptions).intervals) == (True, 3)


def test_options_of_beam_that_mean_nothing_here_are_named_once(caplog):
    options = PipelineOptions(["--temp_location", "gs://there", "--job-name=mine", "--streaming"], experiments=["x"])
    with caplog.at_level(logging.WARNING):
        check_known(options)
        check_known(options.view_as(EngineOptions))
    told = "options of Beam that have no effect here: --experiments, --job_name, --temp_location"
    assert [record.getMessage() for record in caplog.records] == [told]


def test_every_option_of_beam_is_known():
    theirs = pytest.importorskip("apache_beam.options.pipeline_options")
    own = set(PipelineOptions.names()) | {"no_pipeline_type_check"}
    found = set()
    for kind in theirs.PipelineOptions.__subclasses__():
        if kind.__module__ == theirs.__name__:
            parser = theirs._BeamArgumentParser()
            kind._add_argparse_args(parser)
            found |= {string[2:].replace("-", "_") for each in parser._actions for string in each.option_strings}
    assert len(found) > 100 and found - {"", "help"} <= BEAM_OPTIONS | own
    assert not BEAM_OPTIONS & own


def test_a_variable_of_the_environment_that_is_misspelt_is_refused(monkeypatch):
    check_known(PipelineOptions([]), {"HEADRACE_SOAK": "1", "HEADRACE_RUNNER": "local"})
    monkeypatch.setenv("HEADRACE_CHEKPOINT", "state")
    with pytest.raises(ValueError, match="variable HEADRACE_CHEKPOINT; did you mean HEADRACE_CHECKPOINT"):
        run(PipelineOptions([]))


def test_the_page_has_every_option():
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(), "headrace options --markdown > docs/options.md"
    # Other tests declare options of their own.
    ours = [kind for kind in option_classes() if kind.__module__.startswith("headrace.")]
    assert len(ours) == 4 and "`progress`" in text
    for entry in (entry for kind in ours for entry in entries(kind)):
        assert f"| `{entry.written}` |" in text


def test_the_page_has_every_variable_of_the_environment():
    root = PAGE.parents[1]
    sources = [
        path for part in ("sdk", "lowlevel", "runners", "headrace/options") for path in (root / part).rglob("*.py")
    ]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert set(re.findall(r"\bHEADRACE_[A-Z_]*[A-Z]\b", texts)) == VARIABLES.keys()


OURS = [option for kind in option_classes() if kind.__module__.startswith("headrace.") for option in declared(kind)]
ENGINE_NAMES = {each.metadata["option"].name: each.name for each in fields(RunOptions) if "option" in each.metadata}


def test_every_option_says_what_it_means():
    assert len(OURS) > 20 and all(option.meaning for option in OURS)


@pytest.mark.parametrize("option", OURS, ids=lambda option: option.name)
def test_the_readers_of_an_option_read_it(option: Option[object]):
    read = rf"\.({option.name}|{ENGINE_NAMES.get(option.name, option.name)})\b"
    for reader in option.readers:
        assert re.search(read, (PAGE.parents[1] / reader).read_text(encoding="utf-8")), reader
    assert option.readers or option.meaning.startswith("without effect")


@pytest.mark.parametrize(
    "option", [each for each in OURS if "runners/" in str(each.readers)], ids=lambda each: each.name
)
def test_what_runners_read_reaches_them(option: Option[object]):
    if isinstance(option.default, bool):
        given = not option.default
    elif option.kind.flag is None:
        given = print
    else:
        given = ["Step"] if option.default == () else option.kind.arguments.get("type", str)(7)
    # The engine has a function that makes a balancer, or none.
    name, expected = ("balancer", None) if option.name == "balance" else (ENGINE_NAMES[option.name], given)
    reached = getattr(run_options(PipelineOptions([], **{option.name: given})), name)
    assert reached == option.in_engine(expected) and reached != getattr(RunOptions(), name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "counted.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.delitem(sys.modules, "counted", raising=False)
    return tmp_path


def headrace(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    return f"{result.exit_code}: {result.output}"


LOCAL = ("--runner=LocalRunner", "--no-progress")


@pytest.mark.parametrize(
    "flags",
    [
        ["counted.py", "--threshold=2", "--max_records_per_epoch=1"],
        ["--threshold=2", "--max_records_per_epoch=1", "counted.py"],
        ["counted.py", "--threshold", "2", "--max-records-per-epoch", "1"],
        ["--max_records_per_epoch", "1", "counted.py", "--threshold=2"],
        ["counted.py", "-o", "threshold=2", "--option=max_records_per_epoch=1"],
    ],
)
def test_one_spelling_on_the_command_line(folder, flags):
    assert headrace("run", *flags, *LOCAL) == "0: done: 3 epochs, 3 records in, 2 out, 0 late, 0 dropped\n"


@pytest.mark.parametrize("command", [("run", *LOCAL), ("explain",), ("draw",)])
def test_every_command_refuses_what_nobody_declares(folder, command):
    said = headrace(command[0], "counted.py", "--treshold=2", *command[1:])
    assert said.startswith("2: error: there is no option --treshold; did you mean --threshold? Nothing has run.")


def test_the_command_lists_options_and_those_of_a_program(folder):
    assert "--latency_aim=SECONDS" in headrace("options") and "--threshold" not in headrace("options")
    said = headrace("options", "counted.py")
    assert "--threshold=THRESHOLD  whole number, 0\n      points that count" in said


def test_an_option_that_is_read_at_run_time_is_listed_like_others():
    class Bonus(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_value_provider_argument("--bonus", type=int, default=5, help="points that are added")

    assert entries(Bonus) == [OptionEntry("--bonus=BONUS", "whole number", "5", "points that are added")]


def test_options_of_beam_without_effect_can_be_read_and_set(caplog):
    options = PipelineOptions(["--project=weather", "--num_workers=3", "--experiments=a=1", "--experiments=b"])
    cloud, debug = options.view_as(GoogleCloudOptions), options.view_as(DebugOptions)
    assert (cloud.project, cloud.region, options.view_as(WorkerOptions).num_workers) == ("weather", None, 3)
    cloud.region = "europe-west1"
    assert options.view_as(GoogleCloudOptions).region == "europe-west1"
    debug.add_experiment("c")
    assert [debug.lookup_experiment(name) for name in "abcd"] == ["1", True, True, None]
    check_known(options)
    assert "no effect here: --experiments, --num_workers, --project" in caplog.text


def test_the_defaults_of_options_without_effect_are_beams():
    theirs = pytest.importorskip("apache_beam.options.pipeline_options")
    ours, found = PipelineOptions([]), {}
    for kind in theirs.PipelineOptions.__subclasses__():
        if "_add_argparse_args" in vars(kind) and kind.__module__.startswith("apache_beam."):
            found.update(kind(flags=[]).get_all_options())
    different = {
        name: (value, getattr(ours, name))
        for name, value in found.items()
        if name in BEAM_OPTIONS and getattr(ours, name) != value
    }
    # Those of Google Cloud, which are seven URLs.
    assert different.keys() == {"gcp_oauth_scopes"}


def test_a_wrong_value_is_told_without_the_error_of_argparse() -> None:
    with pytest.raises(
        ValueError, match="--latency_aim: invalid float value: 'fast'; `headrace options` says"
    ) as raised:
        PipelineOptions(["--latency_aim=fast"]).view_as(EngineOptions)
    assert raised.value.__suppress_context__
