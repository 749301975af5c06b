"""Progress of a run in a notebook: a table under the cell that runs the pipeline, updated in place."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from types import TracebackType
from typing import Protocol, Self, cast

from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import Rates, TextFigure, columns_for, heading, step_figures

_EVERY = 0.25
"""Seconds between two updates. A run may have hundreds of epochs a second, and a notebook cannot show so many."""
_WIDE = 1_000
"""Width of the table in characters, which is enough for all columns."""


class _Handle(Protocol):
    def update(self, shown: object) -> None: ...


class NotebookDisplay:
    """Shows the progress of a run under its cell; use it in a `with` block.

    A pipeline that runs in a notebook uses this display by default.

    Args:
        show: Puts an object on the page and returns a handle that can replace it; by default IPython's `display`.
        clock: Returns the seconds of a monotonic clock.
    """

    def __init__(
        self, show: Callable[[object], _Handle] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show, self._clock = show or _show_in_ipython, clock
        self._rates = Rates()
        self._last: EpochProgress | None = None
        self._next = float("-inf")
        self._handle: _Handle | None = None

    def __enter__(self) -> Self:
        self._handle = self._show(Picture("starting", None, self._rates))
        return self

    def __call__(self, progress: EpochProgress) -> None:
        """Show the progress after an epoch, at most every quarter of a second."""
        now = self._clock()
        self._rates.note(progress, now)
        self._last = progress
        if now >= self._next:
            self._next = now + _EVERY
            self._picture("running")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._picture("done")
        else:
            self._picture("interrupted" if issubclass(kind, KeyboardInterrupt) else "failed")

    def _picture(self, standing: str) -> None:
        if self._handle is not None:
            self._handle.update(Picture(standing, self._last, self._rates))


def _show_in_ipython(shown: object) -> _Handle:
    display = import_module("IPython.display").display
    return cast("_Handle", display(shown, display_id=True))


class Picture:
    """The progress of a run after one epoch, as HTML for notebooks and as text elsewhere.

    >>> Picture("running", EpochProgress(7, 1_200, 40, 0, 0, 0, 0, 0, 0.25), Rates())
    running   epoch 7   in 1,200   out 40   late 0   dropped 0   duplicates 0
    """

    def __init__(self, standing: str, progress: EpochProgress | None, rates: Rates) -> None:
        self._standing = standing
        steps = [] if progress is None else step_figures(progress.metrics)
        self._heading: list[list[TextFigure]] = [] if progress is None else heading(progress, rates, steps)
        self._names, self._rows = columns_for(_WIDE, steps)

    def __repr__(self) -> str:
        flow = self._heading[0] if self._heading else []
        return "   ".join([self._standing, *(f"{figure.name} {figure.value}" for figure in flow)])

    def _repr_html_(self) -> str:
        lines = [" &ensp; ".join(map(_html_of, line)) for line in self._heading]
        first = f"<b>{escape(self._standing)}</b>"
        head = "".join(f"<div>{line}</div>" for line in [" &ensp; ".join([first, *lines[:1]]), *lines[1:]])
        return f'<div style="{_STYLE}">{head}{self._table() if self._rows else ""}</div>'

    def _table(self) -> str:
        names = "".join(f'<th style="{_cell(place)}">{escape(name)}</th>' for place, name in enumerate(self._names))
        rows = (
            "".join(f'<td style="{_cell(place)}">{escape(text)}</td>' for place, text in enumerate(row))
            for row in self._rows
        )
        body = "".join(f'<tr style="background:none">{row}</tr>' for row in rows)
        head = f'<tr style="background:none">{names}</tr>'
        return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>'


# Styles are attributes of elements, because notebook pages drop style sheets; colours follow the theme of the page.
_STYLE = "font-size:13px;line-height:1.6;font-variant-numeric:tabular-nums"
_TABLE = "margin:6px 0 0 0;border-collapse:collapse;font-size:13px"


def _cell(place: int) -> str:
    return f"text-align:{'right' if place else 'left'};padding:1px {'0 1px 20px' if place else '0'};white-space:nowrap"


def _html_of(figure: TextFigure) -> str:
    value = escape(figure.value)
    if figure.alarming:
        value = f'<b style="color:#b35900">{value}</b>'
    return f'<span style="white-space:nowrap"><span style="opacity:.65">{escape(figure.name)}</span> {value}</span>'
