"""Time zones of sessions as Java names them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pytest

from headrace.lowlevel.columnar.pyarrow_private import zone_of
from headrace.lowlevel.records.record import Batch
from headrace.runners.spark.dataframe.staged_rows import _SHORT, arrow_zone, batch_of_rows, in_arrow_zones

SUMMER, WINTER = datetime(2024, 7, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 12, tzinfo=UTC)
OFFSETS = {
    **{"Z": 0, "UTC": 0, "GMT": 0, "UT": 0, "GMT0": 0, "Etc/UTC": 0, "+0": 0, "-00:00": 0, "UTC+00:00": 0},
    **{"+8": 480, "+08": 480, "+08:00": 480, "+0800": 480, "+8:00": 480, "-8:30": -510, "+08:5": 485},
    **{"UTC+8": 480, "GMT-03:30": -210, "UT+05": 300, "UTC-0330": -210, "+18:00": 1080, "+08:00:00": 480},
    **{"Etc/GMT+3": -180, "EST": -300, "MST": -420, "HST": -600},
}
"""Name -> minutes that clocks are ahead of UTC, in each half of the year; as Spark has them."""


@pytest.mark.parametrize("name", OFFSETS)
def test_offsets(name: str) -> None:
    zone = zone_of(arrow_zone(name))
    for instant in (SUMMER, WINTER):
        assert instant.astimezone(zone).utcoffset() == timedelta(minutes=OFFSETS[name])


def test_short_names_are_zones() -> None:
    for name, zone in _SHORT.items():
        found = zone_of(arrow_zone(name))
        if "/" in zone:
            for instant in (SUMMER, WINTER):
                assert instant.astimezone(found).utcoffset() == instant.astimezone(ZoneInfo(zone)).utcoffset()


@pytest.mark.parametrize("name", sorted(available_timezones() - {"localtime", "Factory"})[::40])
def test_other_names_stay(name: str) -> None:
    assert arrow_zone(name) == name or name in _SHORT


def test_seconds_are_those_of_utc() -> None:
    assert arrow_zone("+08:00:30") == arrow_zone("-080030") == "UTC"


def test_a_zone_that_python_does_not_know() -> None:
    with pytest.raises(ValueError, match=r"does not know the session's time zone 'Mars/Olympus'.*session\.timeZone"):
        arrow_zone("Mars/Olympus")


@pytest.mark.parametrize("name", ["PST", "UTC+8", "Z", "Europe/Paris"])
def test_instants_in_columns(name: str) -> None:
    """Also nested ones; each is the same instant, on the clock of the zone."""
    kind, micros = pa.timestamp("us", name), int(SUMMER.timestamp() * 1e6)
    nested = pa.struct([("at", kind), ("map", pa.map_(pa.string(), pa.list_(kind)))])
    table = pa.table(
        {
            "at": pa.array([micros, None], kind),
            "nested": pa.array([{"at": micros, "map": [("a", [micros])]}, None], nested),
            "n": pa.array([1, 2]),
        }
    )
    found = in_arrow_zones(table)
    (at, nothing), (inner, _) = (found[column].to_pylist() for column in ("at", "nested"))
    assert at == inner["at"] == inner["map"][0][1][0] == SUMMER and nothing is None
    assert at.utcoffset() == SUMMER.astimezone(zone_of(arrow_zone(name))).utcoffset()
    (batch,) = in_arrow_zones(table.select(["at", "n"]).slice(0, 1)).to_batches()
    rows: Batch = batch_of_rows(batch, "at")
    assert [time for _, time in rows.rows()] == [micros]


def test_a_table_with_names_of_arrow_is_the_same() -> None:
    table = pa.table(
        {"at": pa.array([0], pa.timestamp("us", "Asia/Tokyo")), "local": pa.array([0], pa.timestamp("us"))}
    )
    assert in_arrow_zones(table) is table
