"""The flights example without any runner: its data, its raw computation, and the pandas side of its check."""

from __future__ import annotations

import doctest
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from examples import flights_check as check
from examples import flights_data as data
from examples.flights_usual import HOUR_US, CarrierState, Finding, UsualDelay
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Commit, Worker
from headrace.lowlevel.records.record import Batch, KeyRecords
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed

DAY_US = 24 * HOUR_US
LATENESS = check.Lateness(max_delay_us=4 * HOUR_US, allowed_us=DAY_US, gap_us=4 * HOUR_US)


@pytest.mark.parametrize(
    "module", ["flights", "flights_data", "flights_usual", "flights_check", "flights_progress", "flights_tables"]
)
def test_docstring_examples(module: str) -> None:
    assert doctest.testmod(import_module(f"examples.{module}")).failed == 0


# --- The replay ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return pd.read_parquet(data.prepare(tmp_path_factory.mktemp("flights")))


@pytest.fixture(scope="module")
def source() -> pd.DataFrame:
    return pd.read_csv(data.source_folder() / "flights.csv.zip")


def test_the_replay_has_every_flight_in_the_order_of_the_reports(replay: pd.DataFrame, source: pd.DataFrame) -> None:
    assert len(replay) == len(source) == 336_776
    assert replay["reported_us"].is_monotonic_increasing
    assert replay["miles"].sum() == source["distance"].sum()
    assert replay["delay_min"].sum() == source["dep_delay"].sum()
    assert replay["delay_min"].isna().sum() == source["dep_time"].isna().sum() == 8255


def test_the_event_time_is_the_scheduled_departure_in_utc(replay: pd.DataFrame) -> None:
    scheduled = pd.to_datetime(replay["scheduled_us"], unit="us", utc=True)
    local = scheduled.dt.tz_convert("America/New_York")
    assert local.min() == pd.Timestamp("2013-01-01 05:15", tz="America/New_York")
    assert local.max() == pd.Timestamp("2013-12-31 23:59", tz="America/New_York")


def test_a_cancelled_flight_is_reported_when_it_should_have_left(replay: pd.DataFrame) -> None:
    cancelled = replay[replay["delay_min"].isna()]
    assert (cancelled["reported_us"] == cancelled["scheduled_us"]).all()


def test_every_flight_that_left_has_an_aircraft(replay: pd.DataFrame) -> None:
    assert replay.loc[replay["delay_min"].notna(), "tail"].notna().all()


def _source_rows(**changes: object) -> pd.DataFrame:
    row = {
        "time_hour": "2013-01-01T10:00:00Z",
        "minute": 15,
        "dep_delay": 5.0,
        "arr_time": 830.0,
        "dest": "IAH",
        "origin": "EWR",
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "distance": 1400,
    }
    return pd.DataFrame([{**row, **changes}])


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({}, "2013-01-01T14:30Z"),
        ({"arr_time": 2400.0}, "2013-01-02T06:00Z"),
        ({"arr_time": 10.0}, "2013-01-02T06:10Z"),
        ({"arr_time": 1230.0, "dest": "HNL"}, "2013-01-01T22:30Z"),
        ({"arr_time": 930.0, "dest": "SJU"}, "2013-01-01T13:30Z"),
        ({"arr_time": None}, "2013-01-01T10:20Z"),
        ({"arr_time": None, "dep_delay": None}, "2013-01-01T10:15Z"),
    ],
    ids=["plain", "midnight", "next day", "Honolulu", "Puerto Rico", "never arrived", "cancelled"],
)
def test_when_a_flight_is_reported(changes: dict[str, object], reported: str) -> None:
    zones = pd.Series({"IAH": "America/Chicago", "HNL": "Pacific/Honolulu"})
    [instant] = data.replay(_source_rows(**changes), zones)["reported_us"]
    assert pd.Timestamp(instant, unit="us", tz="UTC") == pd.Timestamp(reported)


def test_for_every_flight_the_arrival_leaves_a_possible_time_for_taxiing(
    replay: pd.DataFrame, source: pd.DataFrame
) -> None:
    keys = ["scheduled_us", "carrier", "flight"]
    scheduled = pd.to_datetime(source["time_hour"], utc=True) + pd.to_timedelta(source["minute"], unit="min")
    source = source.assign(scheduled_us=scheduled.dt.as_unit("us").astype("int64"))
    both = replay.merge(source[[*keys, "air_time"]], on=keys, validate="one_to_one").dropna(subset="air_time")
    elapsed = (both["reported_us"] - both["scheduled_us"]) / 60e6 - both["delay_min"]
    taxiing = elapsed - both["air_time"]
    assert len(both) == 327_346
    assert taxiing.between(5, 240).all()


def test_the_limit_takes_the_first_reports_and_an_existing_file_is_kept(tmp_path: Path, replay: pd.DataFrame) -> None:
    path = data.prepare(tmp_path, limit=100)
    pd.testing.assert_frame_equal(pd.read_parquet(path), replay.head(100))
    before = path.stat().st_mtime_ns
    assert data.prepare(tmp_path, limit=100).stat().st_mtime_ns == before
    assert list(tmp_path.iterdir()) == [path]


# --- The reference ---------------------------------------------------------------------------------------------------


def _in_steps(replay: pd.DataFrame, size: int) -> list[int]:
    return [*range(size, len(replay), size), len(replay)]


def _one_by_one(
    replay: pd.DataFrame, epoch_ends: Sequence[int]
) -> tuple[dict[tuple[str, int], list[float]], dict[tuple[str, int, int], list[int]], int, int]:
    """Both branches as a person would work them out with pencil and paper: record by record, sessions kept in lists."""
    watermark, greatest, ends = MIN_TIMESTAMP, MIN_TIMESTAMP, list(epoch_ends)
    hours: dict[tuple[str, int], list[float]] = {}
    sessions: dict[str, list[tuple[int, int, list[int]]]] = {}
    late_hours = late_sessions = 0
    for number, flight in enumerate(replay.itertuples()):
        while number >= ends[0]:
            ends.pop(0)
            watermark = greatest - LATENESS.max_delay_us
        greatest = max(greatest, flight.scheduled_us)
        if np.isnan(flight.delay_min):
            continue
        hour = flight.scheduled_us // HOUR_US * HOUR_US
        if hour + HOUR_US + LATENESS.allowed_us < watermark:
            late_hours += 1
        else:
            hours.setdefault((flight.origin, hour), []).append(flight.delay_min)
        if flight.tail is None:
            continue
        start, end = flight.scheduled_us, flight.scheduled_us + LATENESS.gap_us
        if end + LATENESS.allowed_us < watermark:
            late_sessions += 1
            continue
        merged, apart = [flight.miles], []
        for old in sorted(sessions.get(flight.tail, [])):
            if old[0] < end and start < old[1] and old[1] + LATENESS.allowed_us >= watermark:
                start, end, merged = min(start, old[0]), max(end, old[1]), merged + old[2]
            else:
                apart.append(old)
        sessions[flight.tail] = [*apart, (start, end, merged)]
    flat = {(tail, start, end): miles for tail, found in sessions.items() for start, end, miles in found}
    return hours, flat, late_hours, late_sessions


@pytest.mark.parametrize("epoch", [20, 300, 20_000])
def test_the_reference_equals_counting_one_by_one(replay: pd.DataFrame, epoch: int) -> None:
    part = replay.head(10_000)
    ends = _in_steps(part, epoch)
    hours, sessions, late_hours, late_sessions = _one_by_one(part, ends)
    by_hour, by_session = check.hours(part, ends, LATENESS), check.sessions(part, ends, LATENESS)
    assert (by_hour.dropped, by_session.dropped) == (late_hours, late_sessions)
    assert _by_key(by_hour.values, check.HOUR_KEYS, check.HOUR_VALUES) == {
        key: (len(delays), sum(delays) / len(delays), max(delays)) for key, delays in hours.items()
    }
    assert _by_key(by_session.values, check.SESSION_KEYS, check.SESSION_VALUES) == {
        key: (len(miles), sum(miles)) for key, miles in sessions.items()
    }


def _by_key(table: pd.DataFrame, keys: list[str], values: list[str]) -> dict[tuple[object, ...], tuple[object, ...]]:
    ends = {key: "int64" for key in keys if key.startswith("window")}
    rows = table.astype(ends)[keys + values].itertuples(index=False)
    return {tuple(row[: len(keys)]): tuple(row[len(keys) :]) for row in rows}


def test_with_small_epochs_the_most_delayed_flight_of_january_is_dropped(replay: pd.DataFrame) -> None:
    part = replay.head(10_000)
    assert check.hours(part, _in_steps(part, 50), LATENESS).dropped == 1
    assert check.hours(part, _in_steps(part, 10_000), LATENESS).dropped == 0


def _legs(*rows: tuple[str, float]) -> pd.DataFrame:
    """A replay of (aircraft, scheduled departure in hours), in that order."""
    return pd.DataFrame(
        [
            {"tail": tail, "scheduled_us": int(hours * HOUR_US), "delay_min": 0.0, "miles": 100, "origin": "JFK"}
            for tail, hours in rows
        ]
    )


def test_sessions_split_exactly_at_the_gap() -> None:
    legs = _legs(("A", 10), ("A", 13.5), ("A", 17.5), ("B", 13))
    assert check.sessions(legs, [4], LATENESS).values["legs"].tolist() == [2, 1, 1]


@pytest.mark.parametrize(("beyond_us", "dropped"), [(-1, 0), (0, 0), (1, 1)])
def test_a_flight_is_dropped_once_the_watermark_is_beyond_the_allowed_lateness(beyond_us: int, dropped: int) -> None:
    newest = 1 * HOUR_US + LATENESS.allowed_us + LATENESS.max_delay_us + beyond_us
    legs = _legs(("A", newest / HOUR_US), ("A", 0.5))
    legs.loc[0, "scheduled_us"] = newest
    assert check.hours(legs, [1, 2], LATENESS).dropped == dropped
    assert check.hours(legs, [2], LATENESS).dropped == 0


def test_the_reference_refuses_what_it_cannot_decide() -> None:
    legs = _legs(("A", 0), ("B", 31), ("A", 1))
    with pytest.raises(ValueError, match="may have been gone"):
        check.sessions(legs, [2, 3], LATENESS)


def test_final_takes_the_last_pane_and_the_longest_session() -> None:
    panes = pd.DataFrame(
        [
            ("A", 0, 4, 0, 1),
            ("A", 0, 4, 1, 2),
            ("A", 0, 6, 0, 3),
            ("A", 6, 10, 0, 4),
            ("B", 1, 5, 0, 5),
        ],
        columns=["tail", "window_start", "window_end", "index", "legs"],
    )
    assert check.final(panes, check.SESSION_KEYS)["legs"].tolist() == [3, 4, 5]


@pytest.mark.parametrize("break_it", ["value", "missing", "extra"])
def test_differences_are_found_on_both_sides(break_it: str) -> None:
    expected = pd.DataFrame({"key": ["a", "b"], "value": [1, 2]})
    found = expected.copy()
    assert check.differences(found, expected, ["key"], ["value"]).empty
    if break_it == "value":
        found.loc[1, "value"] = 3
    elif break_it == "missing":
        found = found.head(1)
    else:
        found = pd.concat([found, pd.DataFrame({"key": ["c"], "value": [9]})])
    assert len(check.differences(found, expected, ["key"], ["value"])) == 1


# --- The raw computation ---------------------------------------------------------------------------------------------


class Carrier:
    """Runs `UsualDelay` for one carrier, bundle by bundle, as a runner would."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.counters: dict[str, int] = {}
        self._copy = MemoryStateStore()
        self._watermark = MIN_TIMESTAMP
        place = Keyed("usual", UsualDelay(), {"flights": lambda flight: flight}, frozenset(["findings"]))
        self._worker = Worker(place, self._copy, self._emit)

    def _emit(self, stream: str, batch: Batch) -> None:
        assert stream == "findings"
        self.findings.extend(value for value in batch.values if isinstance(value, Finding))

    def run(self, flights: Iterable[tuple[int, float | None]], watermark: int) -> Commit:
        rows = [({"delay_min": delay}, instant) for instant, delay in flights]
        key = encode_key("UA")
        part = KeyRecords("flights", [value for value, _ in rows], [instant for _, instant in rows])
        keys = {key_hash_of(key): (key, [part])} if rows else {}
        commit = self._worker.run(Bundle(keys, self._watermark, watermark))
        self._copy.apply(commit.delta)
        self._watermark = watermark
        for name, count in commit.counters.items():
            self.counters[name] = self.counters.get(name, 0) + count
        return commit

    def state(self) -> CarrierState:
        stored = self._copy.get(key_hash_of(encode_key("UA")), b"")
        assert stored is not None
        state = UsualDelay.state_coder.decode(stored)
        assert isinstance(state, CarrierState)
        return state

    def timers(self) -> int:
        return len(list(self._copy.until(0, MAX_TIMESTAMP)))


def _hour(day: int, flights: int = 10, delay: float | None = 5.0) -> list[tuple[int, float | None]]:
    """So many flights in the first hour of a day, six minutes apart."""
    return [(day * DAY_US + number * HOUR_US // 10, delay) for number in range(flights)]


@pytest.fixture
def carrier() -> Carrier:
    """A carrier with twenty equal days behind it."""
    carrier = Carrier()
    for day in range(20):
        carrier.run(_hour(day), day * DAY_US + HOUR_US)
    assert carrier.findings == []
    return carrier


def test_a_spike_is_reported_when_its_hour_is_complete(carrier: Carrier) -> None:
    carrier.run(_hour(20, delay=80.0), 20 * DAY_US + HOUR_US - 1)
    assert carrier.findings == []
    carrier.run([], 20 * DAY_US + HOUR_US)
    assert carrier.findings == [Finding("UA", 20 * DAY_US, "spike", "delay", 80.0, 5.0, 7.5)]


def test_a_dip_is_what_did_not_arrive(carrier: Carrier) -> None:
    carrier.run(_hour(20, flights=1) + _hour(20, delay=None), 20 * DAY_US + HOUR_US)
    assert carrier.findings == [Finding("UA", 20 * DAY_US, "dip", "flights", 1.0, 10.0, -4.5)]


def test_an_hour_without_any_report_is_judged_too(carrier: Carrier) -> None:
    evening_before = [(20 * DAY_US - HOUR_US, 5.0)]
    carrier.run(evening_before, 20 * DAY_US + HOUR_US)
    assert [(finding.kind, finding.value) for finding in carrier.findings] == [("dip", 0.0)]


def test_a_late_flight_is_dropped_and_everything_else_judged_once(carrier: Carrier) -> None:
    carrier.run(_hour(19), 20 * DAY_US)
    carrier.run(_hour(20), MAX_TIMESTAMP)
    assert carrier.counters["dropped_late"] == 10
    assert carrier.counters["records"] == carrier.counters["judged"] + carrier.counters["dropped_late"] == 220


def test_the_end_of_the_input_leaves_the_model_and_no_timer(carrier: Carrier) -> None:
    assert carrier.timers() > 0
    carrier.run(_hour(20), MAX_TIMESTAMP)
    assert carrier.timers() == 0
    assert carrier.state().open == {}
    assert carrier.findings == []
