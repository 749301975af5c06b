"""The command line, as a person or a script uses it: what it prints, and the number that it ends with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner, Result

import headrace as beam
from headrace.cli.app import SUMMARIES, app
from headrace.cli.ending import Ending
from headrace.recording import Recording

SCORES = """
import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, Computation, Topology
from headrace.transforms.window import FixedWindows, TimestampedValue

class Shown(beam.options.pipeline_options.PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--most", type=int, default=100)

def pipeline(pipeline):
    most = pipeline.options.view_as(Shown).most
    (
        pipeline
        | beam.Create([("red", 5, 10), ("red", 3, 20), ("blue", 7, 70)])
        | beam.Map(lambda score: TimestampedValue(score[:2], score[2]))
        | beam.Filter(lambda score: score[1] <= most)
        | beam.WindowInto(FixedWindows(60))
        | "Sum" >> beam.CombinePerKey(sum)
        | beam.io.WriteToText("sums")
    )

def made():
    made = beam.Pipeline()
    pipeline(made)
    return made

built = made()

class Count(Computation):
    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.set_timer("told", 10**15)
        context.hold(record.timestamp)
        if record.value == "carly":
            raise ValueError("no carly here")

def topology():
    topology = Topology()
    topology.injector("queries", BoundedInjector([("britney", 1), ("carly", 2)]))
    topology.computation("count", Count(), {"queries": lambda query: query}, ["counts"])
    return topology

def failing(pipeline):
    pipeline | beam.Create([1, 0]) | "Divide" >> beam.Map(lambda number: 1 / number)

def two(pipeline, other):
    pass

def nothing():
    return None

def empty(pipeline):
    pass

number = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project's folder, to be in, with its module free to be imported anew."""
    (tmp_path / "points.py").write_text(SCORES)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("points", None)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def ran(*arguments: str) -> Result:
    return call("run", *arguments, "--runner=LocalRunner", "--no-progress")


@pytest.mark.parametrize(
    "target", ["points.py", "points:pipeline", "points.py:pipeline", "points:made", "points:built"]
)
def test_run_takes_whatever_makes_a_pipeline(folder: Path, target: str) -> None:
    result = ran(target)
    assert (result.exit_code, result.stdout) == (0, "done: 1 epochs, 3 records in, 2 out, 0 late, 0 dropped\n")
    assert sorted(line for path in folder.glob("sums*") for line in path.read_text().splitlines()) == [
        "('blue', 7)",
        "('red', 8)",
    ]


def test_options_reach_the_pipeline_and_the_engine(folder: Path) -> None:
    result = ran("points.py", "--most=4", "--max_records_per_epoch=1", "--checkpoint=state")
    assert result.stdout == "done: 3 epochs, 3 records in, 1 out, 0 late, 0 dropped\n"
    assert (
        ran("points.py", "-o", "most=4", "--option=max_records_per_epoch=1", "--checkpoint=state").stdout
        == "done: there was nothing left to do\n"
    )


def test_progress_is_lines_of_json_where_there_is_no_terminal(folder: Path) -> None:
    told = call("run", "points.py", "--runner=LocalRunner").stderr
    assert len(told) < 200
    line = json.loads(told)
    assert (line["epoch"], line["in"], line["out"], line["watermark"]) == (1, 3, 2, "end")
    line = json.loads(call("run", "points.py", "--runner=LocalRunner", "--details").stderr)
    assert line["steps"]["Sum"]["records_in"] == 3
    assert set(line["phases_s"]) == {"tasks", "commit", "deliver"}


def test_a_step_that_fails_ends_with_1_and_names_the_step(folder: Path) -> None:
    result = ran("points:failing")
    assert result.exit_code == Ending.FAILED
    assert "Divide" in result.stderr
    assert "division by zero" in result.stderr


def test_a_run_that_is_replaced_ends_with_3(folder: Path) -> None:
    # Whoever takes the lease while the pipeline is built and run drives from then on.
    (folder / "rival.py").write_text(
        "from points import pipeline as build\nimport headrace as beam\n"
        "from headrace.lowlevel.checkpoint.log import fence\n"
        "def pipeline(pipeline):\n"
        "    build(pipeline)\n"
        "    def taken(line):\n"
        "        from headrace.cli.run import run\n"
        "        import rival; rival.steal()\n"
        "        return line\n"
        "    pipeline | 'More' >> beam.Create([1]) | 'Steal' >> beam.Map(taken)\n"
        "def steal():\n"
        "    from headrace.runners.engine.driver.checkpoint_journal import open_checkpoint\n"
        "    from headrace.runners.engine.clock import ManualClock\n"
        "    import headrace as beam\n"
        "    again = beam.Pipeline('LocalRunner')\n"
        "    pipeline(again)\n"
        "    open_checkpoint('state', again.topology(), ManualClock(), 'a rival')[0].recover()\n"
    )
    result = ran("rival.py", "--checkpoint=state")
    assert result.exit_code == Ending.REPLACED, result.output
    assert "a rival" in result.stderr


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("absent", "there is no module 'absent'"),
        ("absent.py", "there is no file absent.py"),
        ("notes.md", "notes.md is no Python file: its name does not end in .py"),
        ("points:scores", "points has no 'scores'; it has built, pipeline, made"),
        ("points:number", "points:number is of type int"),
        ("points:two", "points:two takes 2 arguments (pipeline, other)"),
        ("points:nothing", "points:nothing() returned NoneType"),
        ("points:empty", "points:empty is a pipeline without steps"),
    ],
)
def test_what_is_no_pipeline_ends_with_2(folder: Path, target: str, told: str) -> None:
    Path("notes.md").write_text("What is not for Python.")
    result = ran(target)
    assert result.exit_code == Ending.MISUSED
    assert told in result.stderr


def test_an_unknown_runner_ends_with_2(folder: Path) -> None:
    assert call("run", "points.py", "--runner=Flink").exit_code == Ending.MISUSED


def test_inspect_tells_what_is_committed(folder: Path) -> None:
    ran("points.py", "--checkpoint=state", "-o", "max_records_per_epoch=1")
    text = call("inspect", "state").stdout
    assert re.search(r"^epoch +3, committed ", text, re.M)
    assert "the input has ended" in text
    assert "Sum" in text
    told = json.loads(call("inspect", "state", "--json").stdout)
    assert (told["epoch"], told["finished"], told["watermarks"][0]["step"]) == (3, True, "Sum")
    earlier = json.loads(call("inspect", "state", "--json", "--at-epoch=2").stdout)
    assert (earlier["epoch"], earlier["finished"]) == (2, False)
    stored = json.loads(call("inspect", "state", "--json", "--at-epoch=2", "--step=Sum").stdout)
    assert [row["key"] for row in stored] == ["red", "red"]


@pytest.mark.parametrize("place", ["", "points.py", "points.py/state", "nosuch://place"])
def test_a_place_that_can_hold_no_checkpoint_ends_with_2_before_anything_runs(folder: Path, place: str) -> None:
    assert ran("points.py", f"--checkpoint={place}").exit_code == Ending.MISUSED
    assert call("explain", "points.py", f"--checkpoint={place}").exit_code == Ending.MISUSED
    assert not list(folder.glob("sums*"))


def test_inspect_says_that_a_finished_run_is_at_its_end_when_recording_it_came_later(folder: Path) -> None:
    ran("points.py", "--checkpoint=state")
    ran("points.py", "--checkpoint=state", "-o", "record")
    told = json.loads(call("inspect", "state", "--json").stdout)
    assert (told["epoch"], told["finished"]) == (2, True)


def test_inspect_names_who_holds_a_watermark(folder: Path) -> None:
    assert ran("points:topology", "--checkpoint=state", "-o", "max_records_per_epoch=1").exit_code == Ending.FAILED
    told = json.loads(call("inspect", "state", "--json").stdout)
    [watermark] = told["watermarks"]
    assert (watermark["held_by"]["key"], watermark["held_by"]["at"]["micros"]) == ("britney", 1)
    assert [timer["tag"] for timer in told["timers"]] == ["told"]
    assert "britney" in call("inspect", "state").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["state"], "there is no checkpoint at"),
        (["made", "--at-epoch=7"], "epoch 7 is not in the log"),
        (["made", "--step=Max"], "the checkpoint has no step 'Max'"),
        ([""], "the place of the checkpoint is empty"),
        (["points.py"], "points.py: not a directory; choose a directory"),
        (["points.py/state"], "there is no checkpoint at"),
        (["nosuch://place"], "a checkpoint cannot be at nosuch://place"),
    ],
)
def test_inspect_of_what_is_not_there_ends_with_2_and_makes_nothing(
    folder: Path, arguments: list[str], told: str
) -> None:
    ran("points.py", "--checkpoint=made")
    result = call("inspect", *arguments)
    assert result.exit_code == Ending.MISUSED
    assert told in result.stderr
    assert not (folder / "state").exists()


def test_explain_says_which_steps_are_vectorized_and_who_holds_watermarks(folder: Path) -> None:
    text = call("explain", "points.py").stdout
    assert "not vectorized  step 'Filter(" in text
    assert "vectorized      step 'Sum' processes all keys at once" in text
    ran("points:topology", "--checkpoint=state", "-o", "max_records_per_epoch=1")
    assert "source 'queries'" in call("explain", "points:topology", "--checkpoint=state").stdout
    told = json.loads(call("explain", "points.py", "--json", "--step=Sum").stdout)
    assert {step["step"] for step in told["steps"]} == {"Sum"}
    wrong = call("explain", "points.py", "--step=Max")
    assert (wrong.exit_code, "'Max'" in wrong.stderr) == (Ending.MISUSED, True)


def test_draw_writes_mermaid_and_svg(folder: Path) -> None:
    own = call("draw", "points.py").stdout
    assert ("Filter" in own, "level 1" in own, "#" in own.partition("classDef")[0]) == (True, False, False)
    compiled = call("draw", "points.py", "--view=compiled").stdout
    assert compiled.startswith("flowchart LR")
    assert "==>|shuffle|" in compiled
    assert "Filter" in call("draw", "points.py", "--view=written").stdout
    assert call("draw", "points.py", "--output=points.svg").exit_code == 0
    assert (folder / "points.svg").read_text().startswith("<svg")
    wrong = call("draw", "points.py", "--output=points.png")
    assert (wrong.exit_code, ".svg or .mmd" in wrong.stderr) == (Ending.MISUSED, True)


def test_plot_draws_a_recorded_run(folder: Path) -> None:
    result = ran("points.py", "-o", "record_to=run.json")
    # What is recorded is no output of the program.
    assert result.stdout == "done: 1 epochs, 3 records in, 2 out, 0 late, 0 dropped\n"
    assert call("plot", "run.json", "--output=run.html", "--title=Points").stdout == "written: run.html\n"
    assert "<title>Points" in (folder / "run.html").read_text()
    assert call("plot", "run.json", "--output=run.svg").exit_code == 0
    assert (folder / "run.svg").stat().st_size > 1_000


def test_plot_says_that_nothing_was_recorded_and_how_to_record(folder: Path) -> None:
    ran("points.py", "--checkpoint=state")
    remedy = "nothing was recorded, so a picture shows what the checkpoint knows at its end"
    for arguments in ([], ["--output=run.html", "--step=Sum"]):
        told = call("plot", "state", *arguments).stdout
        assert remedy in told
        assert "Start the run with --record (record=True in Python)" in told
    ran("points.py", "--checkpoint=recorded", "--record")
    assert "nothing was recorded" not in call("plot", "recorded").stdout
    (folder / "plain.py").write_text(
        "import headrace as beam\n\ndef pipeline(p):\n    p | beam.Create([1]) | beam.Map(print)\n"
    )
    ran("plain.py", "--checkpoint=plain")
    for arguments in ([], ["--output=run.html"]):
        wrong = call("plot", "plain", *arguments)
        assert wrong.exit_code == Ending.MISUSED
        assert "there is nothing to draw: no step was recorded" in wrong.stderr
        assert "Start the run with --record (record=True in Python)" in wrong.stderr


def test_a_run_in_memory_goes_by_the_machines_clock(folder: Path) -> None:
    ran("points.py", "-o", "record_to=run.json")
    [first, *_] = Recording.load(folder / "run.json").step("Sum").arrivals
    assert abs(first.processing_time / 1e6 - time.time()) < 3600


def test_a_notebook_shows_a_pipeline_as_its_picture() -> None:
    pipeline = beam.Pipeline("LocalRunner")
    _ = pipeline | "Numbers" >> beam.Create([1]) | "Double" >> beam.Map(lambda number: 2 * number)
    shown = pipeline._repr_mimebundle_()
    assert shown["text/vnd.mermaid"].startswith("flowchart LR")
    assert "<svg" in shown["image/svg+xml"]
    assert "Double" in shown["image/svg+xml"]
    with patch.dict(sys.modules, {"fast_sugiyama": None}):
        assert "image/svg+xml" not in pipeline._repr_mimebundle_()


def test_new_makes_a_project_that_runs_and_whose_test_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("new", "clicks").exit_code == 0
    monkeypatch.chdir(folder / "clicks")
    result = ran("clicks.py")
    assert (result.exit_code, result.stdout) == (0, "done: 1 epochs, 4 records in, 3 out, 0 late, 0 dropped\n")
    names: dict[str, object] = {}
    exec(compile((folder / "clicks" / "test_clicks.py").read_text(), "test_clicks.py", "exec"), names)
    names["test_late_points_are_added"]()
    assert call("new", ".").exit_code == Ending.MISUSED
    assert call("new", "1-2").exit_code == Ending.MISUSED


@pytest.mark.parametrize("name", ["class", "json", "headrace", "points.py/clicks"])
def test_new_makes_nothing_that_could_not_be_run(folder: Path, name: str) -> None:
    before = set(folder.iterdir())
    assert call("new", name).exit_code == Ending.MISUSED
    assert set(folder.iterdir()) == before


@pytest.mark.parametrize("command", ["run", "inspect", "explain", "draw", "plot", "new"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    assert f"Example: headrace {command}" in call(command, "--help").stdout


def test_help_comes_without_loading_the_engine() -> None:
    script = (
        "import sys\nfrom headrace.cli.app import app\napp(['--help'], standalone_mode=False)\n"
        "heavy = {'pyspark', 'pandas', 'pyarrow', 'numpy', 'headrace.sdk', 'headrace.lowlevel'}\n"
        "sys.exit(', '.join(heavy & {*sys.modules}) or 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "inspect" in ended.stdout


def test_a_checkpoint_is_inspected_without_loading_spark(folder: Path) -> None:
    ran("points.py", "--checkpoint=state")
    script = (
        "import sys\nfrom headrace.cli.app import app\napp(['inspect', 'state'], standalone_mode=False)\n"
        "heavy = {'pyspark', 'pandas', 'headrace.sdk.pipeline.pipeline'}\n"
        "sys.exit(', '.join(heavy & {*sys.modules}) or 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "the input has ended" in ended.stdout


@pytest.mark.parametrize("command", sorted(SUMMARIES))
def test_every_command_has_help_with_an_example_and_the_summary_is_its_first_line(command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == Ending.DONE
    assert f"Example: headrace {command} " in result.stdout
    function = getattr(import_module(f"headrace.cli.{command}"), command)
    assert function.__doc__.splitlines()[0] == SUMMARIES[command]


@pytest.mark.parametrize("arguments", [["inspekt"], ["run"], ["inspect", "--timers=-1", "state"], ["draw", "--view=x"]])
def test_what_the_command_line_cannot_read_ends_with_2(arguments: list[str]) -> None:
    assert call(*arguments).exit_code == Ending.MISUSED


def test_ctrl_c_ends_with_130_also_while_the_pipeline_is_made(folder: Path) -> None:
    (folder / "stopped.py").write_text("raise KeyboardInterrupt\n")
    for command in ("run", "draw", "explain"):
        result = call(command, "stopped.py")
        assert (result.exit_code, result.stderr) == (Ending.INTERRUPTED, "interrupted: nothing has run\n")


def test_ctrl_c_before_the_first_commit_promises_no_commit_to_go_on_from(folder: Path) -> None:
    (folder / "early.py").write_text(
        "import headrace as beam\n\n\ndef stop(value):\n    raise KeyboardInterrupt\n\n\n"
        "def pipeline(pipeline):\n    pipeline | beam.Create([1]) | beam.Map(stop)\n"
    )
    result = call("run", "early.py", "--runner=LocalRunner", "--checkpoint=state", "--no-progress")
    told = "interrupted: nothing is committed by this run; run the same command again\n"
    assert (result.exit_code, result.stderr) == (Ending.INTERRUPTED, told)
