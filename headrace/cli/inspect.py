"""The command `headrace inspect`: shows the contents of a checkpoint, without writing to it or disturbing a run.

Tables are in columns if they fit the terminal, else a few lines for each row, so that no value is split.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, cast

import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.ending import MisuseError, as_misuse, endings
from headrace.lowlevel import CheckpointError, CheckpointView
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.state_table import state_table
from headrace.sdk.recording.stored_cells import UnknownStepError, json_value, require_step
from headrace.ui.checkpoint_report import CheckpointReport, Figures, report_of
from headrace.ui.stored_state import first_keys

Column = tuple[str, Callable[[Figures], str]]
"""The heading of a column, and a function that returns the cell of a row in this column."""
_GAP = 2


def print_table(console: Console, title: str, rows: Iterable[Figures], columns: Sequence[Column]) -> None:
    """Print a table with a title, without empty columns; print nothing if there are no rows."""
    found = list(rows)
    shown = [(name, [show(row) for row in found]) for name, show in columns]
    (first, names), *others = shown
    others = [(name, cells) for name, cells in others if any(cell not in ("", "0") for cell in cells)]
    if not found:
        return
    console.print()
    console.print(Text(title, style="bold"))
    if sum(_GAP + max(map(len, (name, *cells))) for name, cells in [(first, names), *others]) - _GAP <= console.width:
        console.print(_table([(first, names), *others]))
        return
    for place, name in enumerate(names):
        console.print(name, markup=False, soft_wrap=True)
        print_facts(console, [(heading, cells[place]) for heading, cells in others if cells[place]], indent="  ")


def _table(columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for place, (name, cells) in enumerate(columns):
        numeric = place > 0 and all(cell.replace(",", "").isdigit() for cell in cells if cell)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def print_facts(console: Console, facts: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Print a line for each pair of name and value."""
    width = max((len(name) for name, _ in facts), default=0) + _GAP
    for name, text in facts:
        console.print(Text.assemble(indent, (name.ljust(width), "dim"), text), soft_wrap=True)


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text for people, with consecutive numbers given by their first and last one.

    >>> ranges([1, 2, 3, 4, 7, 9, 10]), ranges([]), ranges([12_000, 12_001])
    ('1 to 4, 7, 9, 10', 'none', '12,000, 12,001')
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    joints = (" to " if run[-1] - run[0] > 1 else ", " for run in runs)
    return ", ".join(joint.join(f"{each:,}" for each in run) for joint, run in zip(joints, runs, strict=True)) or "none"


Place = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="Directory or URL of a checkpoint.")]


def inspect(
    checkpoint: Place,
    at_epoch: Annotated[int | None, typer.Option(help="Show an earlier commit that is still in the log.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")] = False,
    timers: Annotated[int, typer.Option(min=0, help="How many of the next timers to show.")] = 10,
    step: Annotated[str | None, typer.Option(help="Show the stored state of the keys of this step instead.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many keys to show, with --step.")] = 20,
    output: Annotated[
        Path | None, typer.Option(help="Write the state of all steps, or of --step, into this Parquet file instead.")
    ] = None,
) -> None:
    """Show what a checkpoint holds: epochs, watermarks and who holds them, timers, state, records.

    Reads only; a run that uses the checkpoint goes on undisturbed, and no code that the checkpoint names is run. Ends
    with 0, or with 2 when there is no checkpoint or no such epoch.

    Example: headrace inspect state/scores --at-epoch=41 --json
    """
    with endings():
        view = view_of(checkpoint, at_epoch)
        if step is not None:
            _require_step(view, step)
        if output is not None:
            _write(view, step, output)
            return
        if step is not None:
            (_print_keys_as_json if as_json else _print_keys)(view, step, limit)
            return
        report = report_of(view, timers)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=1))
    else:
        _print(report, Console(highlight=False))


def view_of(place: str, epoch: int | None = None) -> CheckpointView:
    """Return a view of a checkpoint at its last commit, or at an earlier epoch. Raises `MisuseError`."""
    with as_misuse(CheckpointError):
        view = CheckpointView.of(place)
        return view if epoch is None else view.at_epoch(epoch)


def _write(view: CheckpointView, step: str | None, output: Path) -> None:
    """Write the table of `headrace.read_state` into a Parquet file. Raises `MisuseError` for another kind of file."""
    if output.suffix != ".parquet" or not output.absolute().parent.is_dir():
        raise MisuseError(f"--output={output} is no file to write; name a .parquet file in a folder that exists")
    table = state_table(view, step)
    pq.write_table(table, output)
    typer.echo(f"{output}: {table.num_rows:,} rows")


def _print(report: CheckpointReport, console: Console) -> None:
    facts = [("checkpoint", report.place), ("driven by", report.driver or "nobody yet")]
    if report.epoch is None:
        print_facts(console, [*facts, ("epoch", "nothing is committed yet")])
        return
    ended = "the input has ended" if report.finished else "the input has not ended"
    state = f"{report.files['number']:,} files, {report.files['bytes']:,} bytes"
    epoch = f"{report.epoch:,}, committed {report.committed}; {ended}"
    print_facts(console, [*facts, ("epoch", epoch), ("in the log", ranges(report.epochs)), ("state", state)])
    waits = [("waits for", _text("waits_for"))] if any(row["waits_for"] for row in report.injectors) else []
    print_table(console, "input", report.injectors, [*_INPUT, *waits])
    print_table(console, "watermarks", report.watermarks, _WATERMARKS)
    print_table(console, "state", [row for row in report.state if any(map(row.get, _STORED))], _STATE)
    print_table(console, f"next timers ({len(report.timers)})", report.timers, _TIMERS)
    print_table(console, "on their way", report.pending, _PENDING)
    # The sinks that a recording adds are not part of the user's program.
    counters = [{"step": step, **counted} for step, counted in report.counters.items() if step not in report.recorders]
    names = dict.fromkeys(name for counted in counters for name in counted if name != "step")
    print_table(console, "counters", counters, [("step", _text("step")), *((name, _number(name)) for name in names)])


def _key(row: Figures) -> str:
    """The key of a row on one line; one that is a text is in quotes where it could not be seen."""
    key = row["key"]
    is_plain = not isinstance(key, str) or (key == key.strip() != "" and key.isprintable())
    return text_of(key if is_plain else repr(key))


def _text(name: str) -> Callable[[Figures], str]:
    return lambda row: "" if row.get(name) is None else str(row[name])


def _number(name: str) -> Callable[[Figures], str]:
    return lambda row: "" if row.get(name) is None else f"{row[name]:,}"


def _date(name: str) -> Callable[[Figures], str]:
    return lambda row: str(cast("Mapping[str, object]", row[name])["date"])


def _holder(row: Figures) -> str:
    if (held := cast("Mapping[str, object] | None", row["held_by"])) is None:
        return ""
    return f"key {held['key']!r}, {held['for'] or 'a hold'}, at {_date('at')(held)}"


_INPUT: Sequence[Column] = (
    ("source", _text("stream")),
    ("watermark", _date("watermark")),
    ("greatest seen", _date("greatest")),
    ("backlog", _number("backlog")),
)
_WATERMARKS: Sequence[Column] = (
    ("step", _text("step")),
    ("input", _date("input")),
    ("output", _date("output")),
    ("held by", _holder),
)
_STORED = ("keys", "lines", "cells", "timers", "ids")
_STATE: Sequence[Column] = (
    ("step", _text("step")),
    ("entries", lambda row: f"{cast(int, row['keys']) + cast(int, row['lines']):,}"),
    *((name, _number(name)) for name in ("bytes", "timers")),
    ("ids", _number("ids")),
)
_TIMERS: Sequence[Column] = (
    ("step", _text("step")),
    ("key", _key),
    ("for", _text("for")),
    ("clock", lambda row: str(row["clock"]).replace("_", " ")),
    ("due", _date("due")),
)
_PENDING: Sequence[Column] = (
    ("to", _text("to")),
    ("records", _number("records")),
    ("oldest", _date("oldest")),
)


def _print_keys(view: CheckpointView, step: str, limit: int) -> None:
    """Print what is stored of up to `limit` keys of a step, and their timers."""
    found = first_keys(view, step, limit)
    for key, entries in found.items():
        typer.echo(key)
        for entry in entries:
            typer.echo(f"  {'  '.join(map(_entry_text, *zip(*entry.items(), strict=True)))}")
    if not found:
        typer.echo(f"nothing is stored of {step}")


def _entry_text(name: str, text: str) -> str:
    if name in ("cell", "value"):
        return text
    return f"{text} bytes" if name == "bytes" else f"{name} {text}"


def _require_step(view: CheckpointView, step: str) -> None:
    try:
        require_step(view, step)
    except UnknownStepError as error:
        raise MisuseError(f"{error}; correct --step") from error


def _print_keys_as_json(view: CheckpointView, step: str, limit: int) -> None:
    """Print the sizes of the cells of up to `limit` keys of a step, or their columns."""
    rows: list[dict[str, object]] = []
    coder = view.coder_of(step)
    for state in islice(view.states(step), limit):
        cells = {repr(name): len(data) for name, data in state.cells.items()}
        data = state.state if isinstance(state.state, bytes) else b""
        row: dict[str, object] = {"key": json_value(state.key), "state_bytes": len(data), "cells": cells}
        rows.append(row if coder is None else row | {"state": json_value(coder.decode(data))})
    for line in islice(view.lines(step), limit - len(rows)):
        rows.append({"key": json_value(line.key), "columns": json_value(dict(line.columns))})
    typer.echo(json.dumps(rows, indent=1))
