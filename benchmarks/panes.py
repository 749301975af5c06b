"""The panes that early and late firings put out: what is the same of them however a system bundles its input."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

EARLY, ON_TIME, LATE = range(3)
"""Timings of panes, in the order in which a window has them."""
PANE_COLUMNS = ("key", "start", "timing", "index", "sum")


def last_panes(panes: pa.Table) -> pa.Table:
    """Key, start and sum of each window's last pane, in any order.

    Raises:
        ValueError: A window's panes are not numbered from 0, not in the order early, on time (once), late, have early
            ones without the one on time, or a sum smaller than the one before.

    >>> panes = [("a", "a", "b"), (0, 0, 0), (EARLY, ON_TIME, LATE), (0, 1, 0), (3, 3, 4)]
    >>> last_panes(pa.table(list(map(list, panes)), names=PANE_COLUMNS)).to_pylist()
    [{'key': 'a', 'start': 0, 'sum': 3}, {'key': 'b', 'start': 0, 'sum': 4}]
    >>> last_panes(pa.table([["a"], [0], [EARLY], [0], [3]], names=PANE_COLUMNS))
    Traceback (most recent call last):
    ValueError: window 0 of 'a': early panes, but none on time
    """
    panes = panes.sort_by([("key", "ascending"), ("start", "ascending"), ("index", "ascending")]).combine_chunks()
    key = panes["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    start, timing, index, total = (panes[name].to_numpy() for name in PANE_COLUMNS[1:])
    first = np.append(True, (key[1:] != key[:-1]) | (start[1:] != start[:-1]))[: len(key)]
    last = np.append(first[1:], True)[: len(key)]
    before = {name: np.roll(column, 1) for name, column in (("timing", timing), ("index", index), ("sum", total))}
    wrong = {
        "panes are not numbered from 0": np.where(first, index != 0, index != before["index"] + 1),
        "a pane is on time twice, or of a time that was over": ~first
        & ((timing < before["timing"]) | ((timing == ON_TIME) & (before["timing"] == ON_TIME))),
        "early panes, but none on time": (timing == EARLY) & last
        | (timing == LATE) & ~first & (before["timing"] == EARLY),
        "a sum got smaller": ~first & (total < before["sum"]),
    }
    for problem, where in wrong.items():
        if where.any():
            row = panes.slice(int(np.argmax(where)), 1).to_pylist()[0]
            raise ValueError(f"window {row['start']} of {row['key']!r}: {problem}")
    return panes.filter(pa.array(last)).select(["key", "start", "sum"])


def require_late(timings: Iterable[object]) -> None:
    """Raise `ValueError` if no pane is late."""
    if LATE not in timings:
        raise ValueError("late events were expected, and panes with them, but no pane is late")
