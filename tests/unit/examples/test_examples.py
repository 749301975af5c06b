"""The smaller examples, each held against what its data says."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path

import pytest

import headrace as beam
from examples import changes, fraud, purchases, sensors, trending
from headrace.lowlevel import CallSink
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.transforms.window import IntervalWindow, TimestampedValue
from tests.collecting import collected


def test_visits_join_clicks_and_purchases() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        found = collected(purchases.build(pipeline))
    assert sorted(found()) == [
        ("anna", 0, 520, ("cart", "home", "shoes"), 80),
        ("anna", 4_000, 4_100, ("hats", "home"), 0),
        ("boris", 60, 300, ("hats", "home"), 0),
        ("clara", 700, 700, (), 15),
    ]


def test_a_large_payment_soon_after_a_tiny_one_is_looked_at() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        payments = pipeline | beam.Create(fraud.PAYMENTS) | beam.FlatMap(lambda row: fraud.at_their_times([row]))
        found = collected(fraud.suspicious(payments))
    assert found() == [("anna", 700)]


def test_trending_queries_are_those_of_each_window() -> None:
    searches = trending.searches()

    def end(top: list[tuple[int, str]], window: IntervalWindow = beam.DoFn.WindowParam) -> tuple[int, object]:
        return window.end.micros // SECOND, top

    with beam.Pipeline("LocalRunner") as pipeline:
        timed = pipeline | beam.Create(searches) | beam.MapTuple(lambda query, at: TimestampedValue(query, at))
        found = collected(trending.trending(timed) | beam.Map(end))
    expected = {}
    for stop in range(300, trending.HOUR + 900, 300):
        counts = Counter(query for query, at in searches if stop - 900 <= at < stop)
        expected[stop] = sorted(((count, query) for query, count in counts.items()), reverse=True)[:3]
    assert dict(found()) == expected


def test_dips_and_silence_are_told_once_each() -> None:
    alerts: list[object] = []
    sink = CallSink(lambda epoch, rows: alerts.extend(value for value, _ in rows))
    LocalRunner().run_topology(sensors.topology(sensors.measurements(), sink), RunOptions(max_records_per_epoch=3))
    # When the input ends, every sensor is silent; that of the valve was told before.
    assert [alert for alert in alerts if alert[2] < 600 * SECOND] == [  # type: ignore[index] - rows of an example
        ("pump", "silent", 220 * SECOND),
        ("boiler", "dip", 250 * SECOND),
        ("valve", "silent", 320 * SECOND),
        ("pump", "back", 400 * SECOND),
    ]


def test_a_table_that_changes_are_applied_to_is_right_after_each_move() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        found = collected(changes.changes(pipeline | changes.stream()))
    told = found()
    assert changes.applied(told) == Counter(dict((customer, city) for customer, city, _ in changes.MOVES).values())
    assert {kind for kind, _ in told} == {"+", "-"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("changes", "- Oslo 1"),
        ("fraud", "look at anna: 700"),
        ("purchases", "Visit(user='clara', start=700, end=700, pages=(), spent=15)"),
        ("sensors", " 250 s  boiler dip"),
        ("stateful", "('order 1', 'paid')"),
    ],
)
def test_programs_run_in_memory_where_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
    monkeypatch.setitem(sys.modules, "headrace.runners.spark", None)
    runpy.run_path(str(Path(purchases.__file__).with_stem(name)), run_name="__main__")
    assert said in capsys.readouterr().out.splitlines()
