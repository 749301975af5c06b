"""What `headrace inspect` and `explain` show people of a checkpoint: whole values, in their words, of their program."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as beam
from headrace.cli.app import app
from headrace.cli.ending import Ending
from headrace.sdk.compiler.compiler import execution_strategies

PROGRAM = """
import headrace as beam
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows, Sessions, TimestampedValue

def pipeline(pipeline):
    scores = [("red team", number, 1e9 + 7 * number + 0.123456) for number in range(9)]
    timed = (
        pipeline
        | "Scores of all teams" >> beam.Create(scores)
        | "Timed" >> beam.Map(lambda score: TimestampedValue(score[:2], score[2]))
    )
    windows = beam.WindowInto(FixedWindows(20), accumulation_mode=AccumulationMode.DISCARDING, allowed_lateness=1)
    timed | windows | "Group by team" >> beam.GroupByKey() | beam.Map(len)
    timed | "Fields" >> beam.Map(lambda pair: (pair[0], pair[1])) | "Sum" >> beam.CombinePerKey(sum)

def other(pipeline):
    pipeline | "Scores of all teams" >> beam.Create([("red", 1)]) | beam.Map(len)

def renamed(pipeline):
    pipeline | "Scores" >> beam.Create([("red", 1)]) | "Sum" >> beam.CombinePerKey(sum)

def changed(pipeline):
    pipeline | "Scores of all teams" >> beam.Create([("red", 1)]) | "Group by team" >> beam.GroupByKey()

def reduced(pipeline):
    pipeline | beam.Create([("red", 1), ("red", 2)]) | beam.CombinePerKey(lambda a, b: a + b)
"""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:.\d+)?Z")
RUN = ["--runner=LocalRunner", "--no-progress"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "teams", raising=False)
    (tmp_path / "teams.py").write_text(PROGRAM)
    return tmp_path


def said(*arguments: str, columns: int = 80) -> str:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == Ending.MISUSED
    return result.stderr


@pytest.fixture
def checkpoint(folder: Path) -> Path:
    said("run", "teams.py", *RUN, "--checkpoint=state", "-o", "max_records_per_epoch=1", "-o", "record")
    return folder / "state"


@pytest.mark.parametrize("columns", [30, 80, 100, 200])
def test_inspect_breaks_no_time_and_fits_the_terminal(checkpoint: Path, columns: int) -> None:
    text = said("inspect", "state", "--at-epoch=8", columns=columns)
    times = len(TIME.findall(said("inspect", "state", "--at-epoch=8", columns=500)))
    assert times > 5
    assert len(TIME.findall(text)) == times
    if columns >= 80:
        longest = max(len(line.rstrip()) for line in text.splitlines()[5:])
        assert longest <= columns


STATEFUL = """
import headrace as beam
from headrace.transforms import userstate
from headrace.transforms.timeutil import TimeDomain

class Visits(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", sum)
    LAST = userstate.ReadModifyWriteStateSpec("last")
    REMIND = userstate.TimerSpec("remind", TimeDomain.WATERMARK)

    def process(self, pair, count=beam.DoFn.StateParam(COUNT), last=beam.DoFn.StateParam(LAST),
                remind=beam.DoFn.TimerParam(REMIND)):
        count.add(1)
        last.write({"page": pair[1]})
        remind.set(1_000_000_000)

    @userstate.on_timer(REMIND)
    def send(self):
        pass

def pipeline(pipeline):
    visits = pipeline | beam.Create([("ann", "a"), ("bob", "b"), ("ann", "c"), ("zoe", "z")])
    visits | "Visits" >> beam.ParDo(Visits())
"""


def test_inspect_shows_the_state_and_timers_of_a_step_by_name(folder: Path) -> None:
    (folder / "visits.py").write_text(STATEFUL)
    said("run", "visits.py", *RUN, "--checkpoint=state", "-o", "max_records_per_epoch=3")
    lines = said("inspect", "state", "--at-epoch=1", "--step=Visits").splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["ann", "bob"]
    of_ann = lines[: lines.index("bob")]
    assert re.fullmatch(r"  state 'count'  2  \d+ bytes", of_ann[1])
    assert re.fullmatch(r"  state 'last'  {'page': 'c'}  \d+ bytes", of_ann[2])
    assert "  timer  for remind  due 2001-09-09T01:46:40Z (low watermark)" in of_ann
    few = said("inspect", "state", "--at-epoch=1", "--step=Visits", "--limit=1").splitlines()
    assert [line for line in few if not line.startswith(" ")] == ["ann"]


def test_inspect_shows_every_key_of_the_next_timers_on_one_line(folder: Path) -> None:
    keys = ["", "a\nb", None, " ", "ann", 7, b"\xff", "x" * 300]
    pairs = ", ".join(f"({key!r}, 'a')" for key in [*keys, "later"])
    program = re.sub(r"Create\(.*\)", lambda _: f"Create([{pairs}])", STATEFUL)
    (folder / "keys_of_visits.py").write_text(program)
    said("run", "keys_of_visits.py", *RUN, "--checkpoint=state", "-o", f"max_records_per_epoch={len(keys)}")
    text = said("inspect", "state", "--at-epoch=1", "--timers=99", columns=80)
    shown = {line.strip()[3:].strip() for line in text.splitlines() if line.strip().startswith("key ")}
    assert {"''", r"'a\nb'", "None", "' '", "ann", "7", r"b'\xff'"} < shown
    assert len(shown) == len(keys)
    assert max(map(len, shown)) < 100


def test_inspect_has_no_internals_but_in_json(checkpoint: Path) -> None:
    text = said("inspect", "state", "--at-epoch=8")
    assert re.search(r"in the log  1 to \d+$", text, re.M)
    for internal in ("recorded", "/sink", "position", "level", "cells", "lines", "1000000000", "low_watermark"):
        assert internal not in text, text
    assert "window from 2001-09-09T01:47:20Z" in text, "what a timer is for"
    whole = said("inspect", "state", "--at-epoch=8", "--json")
    for internal in ("Sum/recorded input/sink", '"position"', '"level"', '"cells"', '"tag"'):
        assert internal in whole


def test_what_is_no_checkpoint_gets_a_remedy_for_looking(folder: Path) -> None:
    for command in (["inspect", "."], ["plot", "."], ["explain", "teams.py", "--checkpoint=."]):
        told = refused(*command)
        assert "give the directory or URL that --checkpoint names when the pipeline is run" in told
        assert "empty or new" not in told
    run = CliRunner().invoke(app, ["run", "teams.py", *RUN, "--checkpoint=."])
    assert "give an empty or new directory" in run.stderr


def test_explain_tells_each_step_once_with_a_reason_and_what_to_do(folder: Path) -> None:
    lines = said("explain", "teams.py").splitlines()
    steps = [re.match(r"(vectorized|not vectorized) +step '([^']*)' ", line) for line in lines]
    assert all(steps), lines
    names = [found[2] for found in steps if found]
    assert len(names) == len(set(names))
    told = dict(zip(names, lines, strict=True))
    assert "columns cannot do `score[:2]`; return only fields" in told["Timed"]
    assert (
        told["Sum"].startswith("vectorized")
        and "its elements come one by one: step 'Timed' gives them so" in told["Sum"]
    )
    assert "combine them (CombinePerKey)" in told["Group by team"]
    assert "comes behind" not in " ".join(lines)


@pytest.mark.parametrize(
    ("program", "difference"),
    [
        ("other", "computation 'Sum' is only in the checkpoint"),
        ("renamed", "source 'Scores' is only in the program"),
        ("changed", "has windows GlobalWindows instead of FixedWindows"),
    ],
)
def test_explain_refuses_the_checkpoint_of_another_pipeline(checkpoint: Path, program: str, difference: str) -> None:
    assert difference in refused("explain", f"teams.py:{program}", "--checkpoint=state")
    assert "watermark of step 'Sum'" in said("explain", "teams.py", "--checkpoint=state")


def test_a_function_of_two_values_is_refused_where_it_stands_with_the_rule(folder: Path) -> None:
    told = refused("run", "teams.py:reduced", *RUN)
    assert len(told.splitlines()) <= 6
    assert told.count("File ") == told.count('teams.py", line') == 1, "the user's own line only"
    assert "is given one iterable of all values; write one such as `lambda values: sum(values)`" in told


def test_a_name_that_is_no_module_is_refused_with_one_that_is(folder: Path) -> None:
    for name, better in {"9lives": "lives", "my-lives": "my_lives", "class": "class_", "a/1 2": "a/scores"}.items():
        told = refused("new", name)
        assert f"try `headrace new {better}`" in told
        assert not (folder / name).exists()
    assert "does not begin with a digit" in refused("new", "9lives")


@pytest.mark.parametrize("function", [print, [].append, len, "{}".format, str.upper, Path, partial(max, 3)])
def test_any_function_has_a_reason_whatever_it_is_made_of(function: object) -> None:
    pipeline = beam.Pipeline("LocalRunner")
    _ = pipeline | beam.Create(["a"]) | "Call" >> beam.Map(function)
    [way] = execution_strategies(pipeline)
    assert "is called for each, as there is no Python source of it to look into; return only" in str(way)


SKEWED = """
from headrace.lowlevel import Computation, ManualInjector, SECOND, Topology

class Pass(Computation):
    def process_record(self, record, context):
        if record.value == 5:
            raise ValueError("stops here")

def source(pace, rounds):
    injector = ManualInjector()
    for number in range(1, rounds + 1):
        injector.records((number, number * pace * SECOND)).watermark(number * pace * SECOND)
    return injector

def topology():
    made = Topology()
    made.injector("slow", source(1, 9))
    made.injector("quick", source(10, 9))
    for name in ("slow", "quick"):
        made.computation(f"pass {name}", Pass(), {name: lambda value: 0}, [])
    return made
"""


def test_the_skew_limit_is_named_where_it_holds_a_source_back(folder: Path) -> None:
    (folder / "skewed.py").write_text(SKEWED)
    run = ["run", "skewed.py:topology", *RUN, "--checkpoint=state"]
    assert CliRunner().invoke(app, [*run, "-o", "skew_limit=25"]).exit_code == Ending.FAILED
    waits = "waits for source 'slow', which is at 4000000 (1970-01-01T00:00:04Z), more than --skew_limit=25 seconds"
    explained = said("explain", "skewed.py:topology", "--checkpoint=state")
    assert explained.count(waits) == 1
    assert f"source 'quick' is at 20000000 (1970-01-01T00:00:20Z): it {waits} behind" in explained
    inspected = said("inspect", "state", columns=300)
    assert "source 'slow', which is at 4000000" in inspected
    assert "waits for" not in said("inspect", "state", "--at-epoch=1", columns=300)
