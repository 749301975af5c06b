"""What a `Grouping` of an earlier run has stored, for a `ColumnGrouping` that goes on in its place."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.columncomputation import ColumnContext
from headrace.lowlevel.state import Delta
from headrace.sdk.columns.objects import Held
from headrace.sdk.contents import Reduction
from headrace.sdk.frames import RECORD
from headrace.sdk.rules import Rules
from headrace.sdk.windowstate import EMPTY, WindowState


def take_over(rules: Rules, context: ColumnContext) -> Iterator[Held]:
    """The accumulators of all its windows, whose records and timers are taken away. Once: then there are none."""
    if not context.copy.count()["keys"]:
        return
    keys: dict[bytes, bytes] = {}
    for stored in context.copy.dump():
        keys.update(stored.keys)
        _forget(stored, context.delta)
        for (row, cell), data in stored.cells.items():
            if cell.startswith(RECORD) and data is not None:
                yield from _held(rules, row, keys[row], cell, data)


def _forget(stored: Delta, delta: Delta) -> None:
    delta.cells.update(dict.fromkeys(stored.cells))
    delta.marks.update(dict.fromkeys(stored.marks))


def _held(rules: Rules, row: bytes, key: bytes, cell: bytes, data: bytes) -> Iterator[Held]:
    frame = rules.frames.of_code(cell.removeprefix(RECORD))
    state = WindowState.decode(frame, data)
    assert isinstance(rules.contents, Reduction), "a ColumnGrouping combines"
    content = rules.contents.unpack(state.content)
    if content is not EMPTY:
        yield Held(row, key, frame.start, frame.end, content, state.fresh)
