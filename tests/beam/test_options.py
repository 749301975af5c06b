"""Options of Headrace beside those of Beam: how they are given, refused, and read by user code."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.options.value_provider import RuntimeValueProvider

from headrace.options.pipeline_options import EngineOptions
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.run.options import HeadraceOptions, engine_options, runtime_values
from headrace.runners.beam.runner import engine_runner
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner

RUNNER = "--runner=headrace.runners.beam.HeadraceRunner"


def run(*flags: str, **overrides: object) -> beam.runners.runner.PipelineResult:
    with beam.Pipeline(options=PipelineOptions([RUNNER, *flags], **overrides)) as pipeline:
        _ = pipeline | beam.Create([1, 2]) | beam.combiners.Count.Globally()
    return pipeline.result


def test_the_runner_is_found_by_its_name() -> None:
    assert isinstance(beam.Pipeline(options=PipelineOptions([RUNNER])).runner, HeadraceRunner)
    assert run().state == "DONE"


@pytest.mark.parametrize(
    ("given", "flags", "environment", "kind"),
    [
        (None, [], None, SparkRunner),
        (None, [], "local", LocalRunner),
        (None, ["--headrace_runner=SparkRunner"], "local", SparkRunner),
        ("local", ["--headrace_runner=SparkRunner"], "spark", LocalRunner),
        (LocalRunner(), ["--headrace_runner=SparkRunner"], "spark", LocalRunner),
    ],
)
def test_the_runner_below(given, flags, environment, kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_RUNNER")
    if environment is not None:
        monkeypatch.setenv("HEADRACE_RUNNER", environment)
    assert type(engine_runner(given, PipelineOptions(flags))) is kind


def test_an_unknown_runner_below_is_refused() -> None:
    with pytest.raises(ValueError, match="no runner is named 'FlinkRunner'; use 'local' or 'spark', or "):
        run("--headrace_runner=FlinkRunner")


def test_options_are_given_as_flags_and_as_keywords(tmp_path: Path) -> None:
    run(f"--checkpoint={tmp_path / 'flag'}")
    run(checkpoint=str(tmp_path / "keyword"))
    assert sorted(os.listdir(tmp_path)) == ["flag", "keyword"]


def test_all_options_reach_the_engine() -> None:
    flags = ["--intervals=3", "--no-balance", "--latency_aim=0.5", "--allow_removed=A", "--allow_removed=B"]
    view = engine_options(PipelineOptions([*flags, "--no_one_task_epochs"], progress=False)).view_as(EngineOptions)
    assert (view.intervals, view.balance, view.latency_aim, view.allow_removed) == (3, False, 0.5, ["A", "B"])
    assert view.progress is False and view.checkpoint is None


def test_beams_own_views_know_them(caplog: pytest.LogCaptureFixture) -> None:
    options = PipelineOptions(["--checkpoint=there", "--streaming", "--project=p"])
    with caplog.at_level(logging.WARNING):
        assert options.get_all_options(display_warnings=True)["checkpoint"] == "there"
    assert caplog.text == ""
    options.view_as(HeadraceOptions).intervals = 2
    assert options.view_as(HeadraceOptions).intervals == 2
    assert options.view_as(StandardOptions).streaming and options.view_as(GoogleCloudOptions).project == "p"


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--chekpoint=there", "--chekpoint; did you mean --checkpoint?"),
        ("--max-records-per-epoch=5", "--max-records-per-epoch; did you mean --max_records_per_epoch?"),
        ("--headrace_runer=local", "--headrace_runer; did you mean --headrace_runner?"),
    ],
)
def test_misspelt_options_are_refused(flag: str, meant: str) -> None:
    with pytest.raises(ValueError, match=meant.replace("?", r"\?")):
        run(flag)


def test_misspelt_keywords_are_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no option --poll_second; did you mean --poll_seconds\?"):
        run(poll_second=3)


def test_options_of_nobody_are_left_to_beam() -> None:
    assert run("--output=there", "--wurst").state == "DONE"


def test_a_value_of_the_engine_that_is_invalid_is_refused() -> None:
    with pytest.raises(ValueError, match="intervals"):
        run("--intervals=0")


class Own(PipelineOptions):
    """Options of a program, one of which is read while the pipeline runs."""

    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_value_provider_argument("--greeting", default="hello")
        parser.add_value_provider_argument("--times", type=int, default=2)
        parser.add_argument("--folder", required=False)


def greeted(_, greeting, times, path):
    extra = RuntimeValueProvider.get_value("extra", str, "")
    Path(path).write_text(" ".join([greeting.get()] * times.get()) + extra)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], "hello hello"), (["--greeting=moin", "--times=1"], "moin"), (["--extra=!"], "hello hello!")],
)
def test_user_code_reads_values_while_it_runs(
    runner: HeadraceRunner, flags: list[str], expected: str, tmp_path: Path
) -> None:
    options = PipelineOptions(flags)
    own = options.view_as(Own)
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        _ = pipeline | beam.Create([0]) | beam.Map(greeted, own.greeting, own.times, str(tmp_path / "told"))
    assert (tmp_path / "told").read_text() == expected


def test_only_plain_values_travel() -> None:
    options = PipelineOptions(["--greeting=moin", "--experiments=one", "--intervals=2"], progress=print, locks={1: 2})
    values = runtime_values(options)
    assert (values["greeting"], values["experiments"], values["intervals"]) == ("moin", ["one"], 2)
    assert not values.keys() & {"progress", "locks", "times"}


def test_an_example_of_beam_unchanged(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("to be or not to be\n")
    arguments = [sys.executable, "-m", "apache_beam.examples.wordcount", RUNNER, "--headrace_runner=local"]
    arguments += [f"--input={tmp_path / 'in.txt'}", f"--output={tmp_path / 'out'}"]
    subprocess.run(arguments, check=True, timeout=120, cwd=tmp_path)
    lines = [line for shard in tmp_path.glob("out*") for line in shard.read_text().splitlines()]
    assert sorted(lines) == ["be: 2", "not: 1", "or: 1", "to: 2"]


MAIN = """
import collections, sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

Pair = collections.namedtuple("Pair", "word length")
PREFIX = "a "

def measured(word):
    return Pair(PREFIX + word, len(word))

class Longest(beam.CombineFn):
    def create_accumulator(self):
        return 0
    def add_input(self, longest, pair):
        return max(longest, pair.length)
    def merge_accumulators(self, accumulators):
        return max(accumulators)
    def extract_output(self, longest):
        return longest

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(save_main_session=True)) as pipeline:
        pairs = pipeline | beam.Create(["to", "question"]) | beam.Map(measured)
        _ = pairs | beam.CombineGlobally(Longest()) | beam.io.WriteToText("out", shard_name_template="")
"""


@pytest.mark.parametrize("runner", ["LocalRunner", pytest.param("SparkRunner", marks=pytest.mark.spark)])
def test_the_main_session(runner: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MAIN)
    arguments = [sys.executable, "program.py", RUNNER, f"--headrace_runner={runner}"]
    subprocess.run(arguments, check=True, timeout=120, cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "8\n"
