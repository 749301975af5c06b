"""Prints tables at a terminal: in columns if they fit, else as a few lines for each row, so that no value is split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.ui.snapshots.checkpoint_report import Figures

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
