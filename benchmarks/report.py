"""What a benchmark leaves behind: tables for a person, and a JSON file with every single figure."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

_NARROW = 120
console = Console(highlight=False)
if not console.is_terminal:
    console.width = _NARROW
_PACKAGES = ("apache-beam", "lmdb", "obstore", "pyarrow", "pyspark")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: str = "") -> None:
    """Print a table; the first column is text, the rest are figures; notes go below."""
    table = Table(title=title, title_justify="left", title_style="bold", caption=notes, caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def save(path: Path, figures: dict[str, object]) -> None:
    """Write the figures, with what they were taken on, and say where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }
    path.write_text(json.dumps({"machine": machine, **figures}, indent=1) + "\n")
    console.print(f"every single figure: {path}")


def rounded(figure: float) -> str:
    """Three significant digits.

    >>> rounded(0.012345), rounded(1.5), rounded(1234.5)
    ('0.0123', '1.50', '1,234')
    """
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:#.3g}"
