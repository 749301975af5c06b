"""The stored state of steps as a table: what each way of grouping keeps, state of user code, and timers."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import headrace as beam
from headrace.cli.app import app
from headrace.lowlevel import CheckpointError
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.sdk.recording.stored_cells import UnknownStepError
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from headrace.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from headrace.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue

CALLED: list[object] = []


class Loud:
    """A value whose pickle calls a function."""

    def __reduce__(self) -> tuple[object, ...]:
        return _call, ()


def _call() -> str:
    CALLED.append(1)
    return "called"


class Keeps(beam.DoFn):
    """Every kind of state, and a timer."""

    BAG, SUM = BagStateSpec("bag"), CombiningValueStateSpec("sum", sum)
    LAST, SET = ReadModifyWriteStateSpec("last"), SetStateSpec("set")
    ORDERED, LOUD = OrderedListStateSpec("ordered"), ReadModifyWriteStateSpec("loud")
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        window=beam.DoFn.WindowParam,
        bag=beam.DoFn.StateParam(BAG),
        total=beam.DoFn.StateParam(SUM),
        last=beam.DoFn.StateParam(LAST),
        values=beam.DoFn.StateParam(SET),
        ordered=beam.DoFn.StateParam(ORDERED),
        loud=beam.DoFn.StateParam(LOUD),
        end=beam.DoFn.TimerParam(END),
    ):
        bag.add("x" * 1_500 + str(pair[1]))
        total.add(pair[1])
        last.write({"value": pair[1]})
        values.add(pair[1])
        ordered.add((pair[1], "at"))
        loud.write(Loud())
        end.set(window.end)

    @on_timer(END)
    def close(self):
        pass


EVENTS = [("a", 1, 1), ("b", 2, 2), ("a", 3, 11), ("a", 4, 3)]
"""Key, value and second, each in an epoch of its own; the last one is late for no step."""


def stream() -> TestStream:
    (key, value, second), *others = EVENTS
    made = TestStream()
    # One epoch brings both, so that one segment has lines of windows that are over and of others.
    made = made.add_elements([TimestampedValue(("old", 9), -20), TimestampedValue((key, value), second)])
    made = made.advance_watermark_to(0)
    for key, value, second in others:
        made = made.add_elements([TimestampedValue((key, value), second)])
    return made.advance_watermark_to(5).advance_watermark_to_infinity()


class Killed(Scheduler):
    """Ends before the input does."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("plan", self._at):
            raise Crash


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("state"))
    pipeline = beam.Pipeline("LocalRunner")
    elements = pipeline | stream()
    fixed = elements | "Fixed" >> beam.WindowInto(FixedWindows(10))
    _ = fixed | "Sums" >> beam.CombinePerKey(sum)
    _ = fixed | "Function" >> beam.CombinePerKey(lambda values: sum(values))
    _ = fixed | "Lists" >> beam.GroupByKey()
    _ = fixed | "Keeps" >> beam.ParDo(Keeps())
    often = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
    for mode in (AccumulationMode.ACCUMULATING, AccumulationMode.ACCUMULATING_AND_RETRACTING):
        panes = beam.WindowInto(FixedWindows(10), trigger=often, accumulation_mode=mode, allowed_lateness=5)
        _ = elements | f"{mode.name}" >> panes | f"Sums {mode.name}" >> beam.CombinePerKey(sum)
    _ = elements | "Sessions" >> beam.WindowInto(Sessions(3)) | "By session" >> beam.CombinePerKey(sum)
    counted = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(99)), accumulation_mode=AccumulationMode.DISCARDING
    )
    _ = elements | "Global" >> counted | "All" >> beam.CombinePerKey(lambda values: sum(values))
    with pytest.raises(Crash):
        LocalRunner(scheduler=Killed(len(EVENTS) + 2)).run_topology(pipeline.topology(), RunOptions(checkpoint=place))
    return place


def rows(place: str, step: str, **kwargs: object) -> list[dict[str, object]]:
    found = beam.read_state(place, step, **kwargs)
    assert set(found["step"].to_pylist()) == {step}
    return found.to_pylist()


def second(row: dict[str, object]) -> float | None:
    return row["window"] and row["window"]["start"].timestamp()


FIXED = {("a", 0): [1, 4], ("b", 0): [2], ("a", 10): [3]}


@pytest.mark.parametrize(
    ("step", "reads"),
    [
        ("Sums", lambda value: value["kept0"]),
        ("Function", lambda value: sum(value)),
        ("Lists", lambda value: sum(value["values"]) if "values" in value else value["value0"]),
        ("Sums ACCUMULATING", lambda value: value["kept0"]),
    ],
)
def test_what_windows_hold_whichever_way_the_step_groups(place, step, reads):
    totals = defaultdict(int)
    for row in rows(place, step):
        if row["cell"] == "window":
            totals[row["key"], second(row)] += reads(json.loads(row["value"]))
    # Nothing of the window that is over.
    assert totals == {window: sum(values) for window, values in FIXED.items()}


def test_panes_that_may_be_retracted(place):
    found = rows(place, "Sums ACCUMULATING_AND_RETRACTING")
    cells = {(row["key"], second(row), row["cell"]): json.loads(row["value"])["kept0"] for row in found}
    totals = {window: sum(values) for window, values in FIXED.items()}
    assert cells == {(*window, cell): total for window, total in totals.items() for cell in ("window", "panes")}


def test_sessions_and_the_global_window(place):
    found = rows(place, "By session")
    assert {(row["key"], second(row)) for row in found} == {("a", 1), ("b", 2), ("a", 11), ("a", 3)}
    found = {row["key"]: (row["window"], sum(json.loads(row["value"]))) for row in rows(place, "All")}
    assert found == {"a": (None, 8), "b": (None, 2), "old": (None, 9)}


def test_state_and_timers_of_user_code_without_running_any(place):
    CALLED.clear()
    found = [row for row in rows(place, "Keeps") if (row["key"], second(row)) == ("a", 0)]
    single = [row for row in found if row["cell"] not in ("set", "bag")]
    values = {row["cell"]: row["value"] and json.loads(row["value"]) for row in single}
    assert values == {"sum": 5, "last": {"value": 4}, "ordered": ["at"], "loud": None}
    of_cell = defaultdict(list)
    for row in found:
        of_cell[row["cell"]].append(json.loads(row["value"] or "null"))
    assert sorted(of_cell["set"]) == [1, 4]
    assert sorted(item[-1] for part in of_cell["bag"] for item in part) == ["1", "4"]
    assert all(isinstance(row["bytes"], bytes) for row in found)
    timers = [timer for row in found for timer in row["timers"]]
    assert [(timer["name"], timer["clock"], timer["due"].timestamp()) for timer in timers] == [
        ("end", "low_watermark", 10.0)
    ]
    assert found[0]["timers"] == timers
    assert CALLED == []
    loud = [row["value"] for row in rows(place, "Keeps", unpickle=True) if row["cell"] == "loud"]
    assert set(loud) == {'"called"'}
    assert CALLED


def test_an_earlier_epoch_and_all_steps(place):
    late, early = ({row["key"] for row in rows(place, "All", at_epoch=epoch)} for epoch in (5, 1))
    assert late > early
    table = beam.read_state(place)
    assert set(table["step"].to_pylist()) >= {"Sums", "Function", "Lists", "Keeps", "All"}
    assert table.schema.field("key").type == "string"


def test_whole_numbers_are_keys_of_their_type_and_others_are_texts(tmp_path):
    for keys, told in (([1, 2], [1, 2]), ([1, "1"], ["'1'", "1"]), ([("a", 1)], ["('a', 1)"])):
        pipeline = beam.Pipeline("LocalRunner")
        made = TestStream().add_elements([TimestampedValue((key, 1), 1) for key in keys]).advance_watermark_to(2)
        windows = pipeline | made.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10))
        _ = windows | "Sums" >> beam.CombinePerKey(sum)
        place = str(tmp_path / str(len(list(tmp_path.iterdir()))))
        with pytest.raises(Crash):
            LocalRunner(scheduler=Killed(2)).run_topology(pipeline.topology(), RunOptions(checkpoint=place))
        assert sorted(beam.read_state(place, "Sums")["key"].to_pylist()) == told


def test_what_is_not_there(place, tmp_path):
    with pytest.raises(UnknownStepError, match=r"no step 'Nothing' that keeps state \(steps: "):
        beam.read_state(place, "Nothing")
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        beam.read_state(str(tmp_path))


def test_the_command_writes_the_same_table(place, tmp_path: Path):
    for step in (None, "Keeps"):
        flags = [] if step is None else [f"--step={step}"]
        said = CliRunner().invoke(app, ["inspect", place, f"--output={tmp_path / 'state.parquet'}", *flags])
        assert said.exit_code == 0, said.output
        table = pq.read_table(tmp_path / "state.parquet")
        assert table.to_pylist() == beam.read_state(place, step).to_pylist()
        assert said.output.endswith(f"{table.num_rows:,} rows\n")
    refused = CliRunner().invoke(app, ["inspect", place, f"--output={tmp_path / 'state.csv'}"])
    assert refused.exit_code == 2
