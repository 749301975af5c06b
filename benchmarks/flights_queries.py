"""Five questions to real flights, as a user would ask each system: ours, Spark SQL, DuckDB and pandas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import headrace as beam
from benchmarks.generator import SECOND
from headrace.transforms.window import FixedWindows, Sessions

HOUR = 3600
DAY = 24 * HOUR
WEEK = 7 * DAY
GAP = 4 * HOUR - 30
"""Flights are scheduled by the minute, so no two are exactly this far apart, where systems differ on whether sessions
merge. All in seconds."""
Rows = beam.PCollection[Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A question, as each system is asked it. Results have one row a group, starts and ends as int64 microseconds."""

    name: str
    schema: pa.Schema
    """Of the result: first the key, then `start`."""
    reads: tuple[str, ...]
    """Columns of flights besides `scheduled`."""
    headrace: Callable[[Rows], Rows]
    spark: Callable[[DataFrame], DataFrame]
    duckdb: str
    pandas: Callable[[pd.DataFrame], pd.DataFrame]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the result."""
        return tuple(self.schema.names)

    @property
    def settle(self) -> Callable[[pa.Table], pa.Table]:
        """Lists as text: Arrow does not sort tables by lists."""
        return _lists_as_text


def _lists_as_text(table: pa.Table) -> pa.Table:
    for at, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            table = table.set_column(at, field.name, pa.array(map(str, table[at].to_pylist()), pa.string()))
    return table


def _schema(key: str, **others: pa.DataType) -> pa.Schema:
    return pa.schema({key: pa.string(), "start": pa.int64(), **others})


# --- Ours, as a user would write it ---------------------------------------------------------------------------------


def carriers(flights: Rows) -> Rows:
    departed = flights | beam.Filter(beam.col.dep_delay.is_not_null()) | beam.WindowInto(FixedWindows(DAY))
    grouped = (
        beam.GroupBy("carrier")
        .aggregate_field("dep_delay", beam.combiners.CountCombineFn(), "flights")
        .aggregate_field("dep_delay", beam.combiners.MeanCombineFn(), "delay")
        .aggregate_field("distance", sum, "miles")
    )
    return (
        departed
        | grouped
        | beam.Select("carrier", start=beam.window_start(), flights="flights", delay="delay", miles="miles")
    )


def airports(flights: Rows) -> Rows:
    landed = flights | beam.Filter(beam.col.air_time.is_not_null()) | beam.WindowInto(FixedWindows(WEEK))
    grouped = (
        beam.GroupBy("dest")
        .aggregate_field("air_time", max, "longest")
        .aggregate_field("day", max, "last")
        .aggregate_field("arr_delay", beam.combiners.MeanCombineFn(), "delay")
    )
    return (
        landed | grouped | beam.Select("dest", start=beam.window_start(), longest="longest", last="last", delay="delay")
    )


def hours(flights: Rows) -> Rows:
    return (
        flights
        | beam.Filter(lambda flight: flight["dep_delay"] is not None)
        | beam.Map(lambda flight: (flight["origin"], flight["dep_delay"]))
        | beam.WindowInto(FixedWindows(HOUR))
        | beam.CombinePerKey(beam.combiners.MeanCombineFn())
        | "Row" >> beam.Map(_row)
    )


def worst(flights: Rows) -> Rows:
    return (
        flights
        | beam.Filter(lambda flight: flight["arr_delay"] is not None)
        | beam.Map(lambda flight: (flight["carrier"], flight["arr_delay"]))
        | beam.WindowInto(FixedWindows(DAY))
        | beam.combiners.Top.LargestPerKey(3)
        | "Row" >> beam.Map(_row)
    )


def aircraft(flights: Rows) -> Rows:
    departed = flights | beam.Filter(beam.col.dep_delay.is_not_null()) | beam.WindowInto(Sessions(GAP))
    grouped = (
        beam.GroupBy("tailnum")
        .aggregate_field("dep_delay", beam.combiners.CountCombineFn(), "legs")
        .aggregate_field("distance", sum, "miles")
    )
    ends = {"start": beam.window_start(), "end": beam.window_end()}
    return departed | grouped | beam.Select("tailnum", **ends, legs="legs", miles="miles")


def _row(pair: tuple[str, Any], window: Any = beam.DoFn.WindowParam) -> dict[str, Any]:
    return {"key": pair[0], "start": window.start, "result": pair[1]}


# --- Spark SQL, batch and streaming -----------------------------------------------------------------------------------


def _spark(events: DataFrame, present: str, key: str, seconds: int, **results: Column) -> DataFrame:
    window = F.window("scheduled", f"{seconds} seconds").alias("window")
    grouped = events.where(F.col(present).isNotNull()).groupBy(key, window)
    named = grouped.agg(*(made.alias(name) for name, made in results.items()))
    return named.select(key, F.unix_micros("window.start").alias("start"), *results)


def _spark_aircraft(events: DataFrame) -> DataFrame:
    window = F.session_window("scheduled", f"{GAP} seconds").alias("window")
    grouped = events.where("dep_delay IS NOT NULL").groupBy("tailnum", window)
    ends = [F.unix_micros(f"window.{end}").alias(end) for end in ("start", "end")]
    return grouped.agg(F.count("*").alias("legs"), F.sum("distance").alias("miles")).select(
        "tailnum", *ends, "legs", "miles"
    )


# --- DuckDB and pandas ------------------------------------------------------------------------------------------------


def _sql(present: str, key: str, seconds: int, results: str) -> str:
    start = f"epoch_us(scheduled) // {seconds * SECOND} * {seconds * SECOND}"
    return f"SELECT {key}, {start} AS start, {results} FROM flights WHERE {present} IS NOT NULL GROUP BY ALL"


_SQL_AIRCRAFT = f"""
    WITH legs AS (SELECT tailnum, epoch_us(scheduled) AS time, distance FROM flights WHERE dep_delay IS NOT NULL),
    following AS (SELECT *, time - lag(time) OVER (PARTITION BY tailnum ORDER BY time) AS pause FROM legs),
    numbered AS (
        SELECT *, count(*) FILTER (WHERE pause >= {GAP * SECOND}) OVER (PARTITION BY tailnum ORDER BY time) AS session
        FROM following
    )
    SELECT tailnum, min(time), max(time) + {GAP * SECOND}, count(*), sum(distance)::BIGINT
    FROM numbered GROUP BY tailnum, session
"""


def _pandas(rows: pd.DataFrame, present: str, key: str, seconds: int, **results: Any) -> pd.DataFrame:
    rows = rows[rows[present].notna()]
    at = _micros(rows)
    return rows.assign(start=at - at % (seconds * SECOND)).groupby([key, "start"]).agg(**results).reset_index()


def _pandas_aircraft(rows: pd.DataFrame) -> pd.DataFrame:
    legs = rows[rows["dep_delay"].notna()].assign(at=_micros).sort_values(["tailnum", "at"])
    apart = legs.groupby("tailnum")["at"].diff().fillna(GAP * SECOND) >= GAP * SECOND
    results = {"start": ("at", "min"), "end": ("at", "max"), "legs": ("at", "size"), "miles": ("distance", "sum")}
    found = legs.assign(session=apart.cumsum()).groupby(["tailnum", "session"]).agg(**results).reset_index()
    return found.assign(end=found["end"] + GAP * SECOND).drop(columns="session")


def _pandas_worst(rows: pd.DataFrame) -> pd.DataFrame:
    sorted_rows = rows.sort_values("arr_delay", ascending=False, kind="stable")
    return _pandas(sorted_rows, "arr_delay", "carrier", DAY, worst=("arr_delay", lambda group: group.head(3).tolist()))


def _micros(rows: pd.DataFrame) -> pd.Series:
    return rows["scheduled"].dt.as_unit("us").astype("int64")


# --- The five ---------------------------------------------------------------------------------------------------------

_FLOAT, _WHOLE = pa.float64(), pa.int64()
QUERIES = [
    Query(
        "carriers: flights, mean delay and miles of a day",
        _schema("carrier", flights=_WHOLE, delay=_FLOAT, miles=_WHOLE),
        ("carrier", "dep_delay", "distance"),
        carriers,
        lambda events: _spark(
            events, "dep_delay", "carrier", DAY, flights=F.count("*"), delay=F.avg("dep_delay"), miles=F.sum("distance")
        ),
        _sql("dep_delay", "carrier", DAY, "count(*), avg(dep_delay), sum(distance)::BIGINT"),
        lambda rows: _pandas(
            rows,
            "dep_delay",
            "carrier",
            DAY,
            flights=("distance", "size"),
            delay=("dep_delay", "mean"),
            miles=("distance", "sum"),
        ),
    ),
    Query(
        "airports: longest flight, last date and mean delay of a week",
        _schema("dest", longest=_FLOAT, last=pa.date32(), delay=_FLOAT),
        ("dest", "air_time", "day", "arr_delay"),
        airports,
        lambda events: _spark(
            events, "air_time", "dest", WEEK, longest=F.max("air_time"), last=F.max("day"), delay=F.avg("arr_delay")
        ),
        _sql("air_time", "dest", WEEK, "max(air_time), max(day), avg(arr_delay)"),
        lambda rows: _pandas(
            rows,
            "air_time",
            "dest",
            WEEK,
            longest=("air_time", "max"),
            last=("day", "max"),
            delay=("arr_delay", "mean"),
        ),
    ),
    Query(
        "hours: mean delay by airport and hour",
        _schema("origin", delay=_FLOAT),
        ("origin", "dep_delay"),
        hours,
        lambda events: _spark(events, "dep_delay", "origin", HOUR, delay=F.avg("dep_delay")),
        _sql("dep_delay", "origin", HOUR, "avg(dep_delay)"),
        lambda rows: _pandas(rows, "dep_delay", "origin", HOUR, delay=("dep_delay", "mean")),
    ),
    Query(
        "worst: the three greatest delays of a carrier and day",
        _schema("carrier", worst=pa.list_(_FLOAT)),
        ("carrier", "arr_delay"),
        worst,
        lambda events: _spark(
            events,
            "arr_delay",
            "carrier",
            DAY,
            worst=F.slice(F.sort_array(F.collect_list("arr_delay"), asc=False), 1, 3),
        ),
        _sql("arr_delay", "carrier", DAY, "max(arr_delay, 3)"),
        _pandas_worst,
    ),
    Query(
        "aircraft: legs and miles of a session",
        _schema("tailnum", end=_WHOLE, legs=_WHOLE, miles=_WHOLE),
        ("tailnum", "dep_delay", "distance"),
        aircraft,
        _spark_aircraft,
        _SQL_AIRCRAFT,
        _pandas_aircraft,
    ),
]
