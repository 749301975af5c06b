"""The main job whole: the year of flights on Spark, every pane and every final value checked."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from examples.flights import EPOCH, LATENESS
from examples.flights_data import prepare
from examples.flights_replay import Replay
from examples.flights_summary import HOURS, SESSIONS, answer, counted
from examples.flights_usual import UsualDelay
from headrace.lowlevel.sinks.sink import CallSink
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.unit.examples.flights_panes import expected_panes
from tests.unit.examples.test_flights import Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("flights")
    return Run(prepare(folder), folder, EPOCH, "SparkRunner")


def test_the_year_is_read_in_bounded_epochs(run: Run) -> None:
    assert run.epoch_ends == [*range(EPOCH, 336_776, EPOCH), 336_776]


def test_every_final_value_is_that_of_pandas(run: Run) -> None:
    for question, folder in ((HOURS, "hours"), (SESSIONS, "sessions")):
        found = answer(question, run.panes(folder), run.replay, run.counters, run.epoch_ends, LATENESS)
        assert found.differences.empty
        assert found.records == 328_521 == found.contributing + found.dropped
        assert found.right


def test_every_pane_of_the_delays_is_as_worked_out_by_hand(run: Run) -> None:
    found = run.panes("hours").sort_values(["origin", "window_start", "index"], ignore_index=True)
    pd.testing.assert_frame_equal(found, expected_panes(run.replay, run.epoch_ends), check_exact=True)
    assert found["timing"].value_counts().to_dict() == {"EARLY": 20_356, "ON_TIME": 19_434, "LATE": 215}


def test_the_usual_delay_accounts_for_every_flight_and_finds_the_storms(run: Run) -> None:
    judged, dropped = (counted(run.counters, "usual", counter) for counter in ("judged", "dropped_late"))
    assert judged + dropped == 336_776
    findings = run.panes("findings")
    days = findings["hour"].dt.tz_convert("America/New_York").dt.date.astype(str)
    by_day = findings.groupby([days, "kind"]).size()
    assert by_day["2013-03-08", "spike"] > 30
    assert by_day["2013-02-08", "dip"] > 10


def test_the_findings_are_those_of_the_computation_alone_in_memory(run: Run) -> None:
    found: list[tuple[object, ...]] = []
    topology = Topology()
    topology.injector("flights", Replay(run.replay_path, LATENESS.max_delay_us))
    topology.computation("usual", UsualDelay(), {"flights": lambda flight: flight["carrier"]}, ["findings"])
    topology.sink("found", "findings", CallSink(lambda epoch, rows: found.extend(value for value, _ in rows)))
    LocalRunner().run_topology(topology, RunOptions(max_records_per_epoch=EPOCH))
    on_spark = run.panes("findings").astype({"hour": "int64"}).itertuples(index=False)
    assert sorted(map(tuple, on_spark)) == sorted(map(tuple, found))


def test_progress_reaches_the_end(run: Run) -> None:
    assert run.progress[-1].records_in == 336_776
    assert run.progress[-1].dropped == 502
