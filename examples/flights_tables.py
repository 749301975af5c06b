"""The tables at the end: what the final values, the panes before them and the findings say to a person."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich import box
from rich.table import Table

from examples.flights_progress import NEW_YORK, clock


def airports_table(hours: pd.DataFrame) -> Table:
    """Each airport's year and its worst hour, of the final values.

    Args:
        hours: one row a window: origin, window_start (UTC), flights, mean_min, max_min.
    """
    table = _table("Departure delay by airport", "airport", "flights", "mean", "most", "worst hour", "flights", "mean")
    for origin, group in hours.groupby("origin"):
        flights = group["flights"].sum()
        mean = (group["flights"] * group["mean_min"]).sum() / flights
        busy = group[group["flights"] >= min(10, group["flights"].max())]
        hour = busy.loc[busy["mean_min"].idxmax()]
        table.add_row(
            str(origin),
            f"{flights:,}",
            minutes(mean),
            minutes(group["max_min"].max()),
            clock(_us(hour["window_start"])),
            str(hour["flights"]),
            minutes(hour["mean_min"]),
        )
    return table


def panes_table(panes: pd.DataFrame, final: pd.DataFrame) -> Table:
    """How good the early, on-time and late answers were: how far each pane's mean was from the final one."""
    table = _table("How answers changed with the watermark", "pane", "panes", "flights seen", "mean off by", "most")
    keys = ["origin", "window_start"]
    both = panes.merge(final[[*keys, "flights", "mean_min"]], on=keys, suffixes=("", "_final"))
    # An on-time pane may be empty: it says that the hour was over before any of its flights was reported.
    off = (both["mean_min"] - both["mean_min_final"]).abs()
    for timing in ("EARLY", "ON_TIME", "LATE"):
        of = both["timing"] == timing
        if of.any():
            seen = both.loc[of, "flights"].sum() / both.loc[of, "flights_final"].sum()
            table.add_row(timing, f"{of.sum():,}", f"{seen:.1%}", minutes(off[of].mean()), minutes(off[of].max()))
    return table


def changed_table(panes: pd.DataFrame, most: int = 4) -> Table:
    """The hours whose mean changed most after they were thought to be complete."""
    table = _table(
        "Hours that late flights changed most: mean delay (flights)", "hour", "airport", "early", "on time", "late"
    )
    by_timing = panes.sort_values("index").groupby(["origin", "window_start", "timing"])[["mean_min", "flights"]].last()
    wide = by_timing.unstack("timing")
    if {("mean_min", "ON_TIME"), ("mean_min", "LATE")} <= set(wide.columns):
        change = (wide["mean_min", "LATE"] - wide["mean_min", "ON_TIME"]).abs()
        for index in change.nlargest(most).index:
            origin, start = index
            cells = [_mean_of(wide.loc[index], timing) for timing in ("EARLY", "ON_TIME", "LATE")]
            table.add_row(clock(_us(start)), origin, *cells)
    return table


def _mean_of(row: pd.Series, timing: str) -> str:
    flights = row.get(("flights", timing))
    if flights is None or pd.isna(flights):
        return "-"
    return f"{minutes(row['mean_min', timing])} ({flights:.0f})"


def aircraft_table(sessions: pd.DataFrame, most: int = 5) -> Table:
    """The aircraft with most departures in one session, and the longest way among these."""
    table = _table(
        "Busiest days of an aircraft", "aircraft", "first departure", "last departure + gap", "legs", "miles"
    )
    for row in sessions.sort_values(["legs", "miles"], ascending=False).head(most).itertuples():
        start, end = clock(_us(row.window_start)), clock(_us(row.window_end))
        table.add_row(row.tail, start, end, str(row.legs), f"{row.miles:,}")
    return table


def findings_table(findings: pd.DataFrame, most: int = 6) -> Table:
    """The days with most spikes or dips, each with the hour that was furthest from usual."""
    table = _table("Far from usual", "day", "spikes", "dips", "furthest", "value", "usual")
    local = findings["hour"].dt.tz_convert(NEW_YORK)
    by_day = findings.assign(day=local.dt.date, strength=findings["deviations"].abs()).groupby("day")
    for day in by_day.size().nlargest(most).index:
        group = by_day.get_group(day)
        kinds = group["kind"].value_counts()
        furthest = group.loc[group.loc[group["kind"] == kinds.idxmax(), "strength"].idxmax()]
        unit = "min late" if furthest["measure"] == "delay" else "left"
        table.add_row(
            f"{day:%b %d}",
            str(kinds.get("spike", 0)),
            str(kinds.get("dip", 0)),
            f"{furthest['carrier']} at {clock(_us(furthest['hour']))[-5:]}",
            f"{furthest['value']:.0f} {unit}",
            f"{furthest['usual']:.0f}",
        )
    return table


def conservation_table(branches: Sequence[tuple[str, int, int, int]]) -> Table:
    """Where every record went.

    Args:
        branches: name, records in, contributing to final values, dropped because they came too late.
    """
    table = _table("Every flight accounted for", "", "in", "= contributing", "+ dropped late", "")
    for name, records, contributing, dropped in branches:
        mark = "[green]✓[/]" if records == contributing + dropped else "[red]✗[/]"
        table.add_row(name, f"{records:,}", f"{contributing:,}", f"{dropped:,}", mark)
    return table


def minutes(value: float) -> str:
    """A delay as people read it.

    >>> minutes(12.639)
    '12.6 min'
    """
    return f"{value:.1f} min"


def _us(instant: pd.Timestamp) -> int:
    return int(instant.value // 1000)


def _table(title: str, *columns: str) -> Table:
    """Text to the left, everything behind it to the right, as figures are read."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table
