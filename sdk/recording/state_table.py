"""The stored state of steps as one Arrow table, read from a checkpoint: `headrace.read_state`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION
from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.coders.coder import PLAIN, STANDARD_KEYS
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.recording.state_snapshot import has_windows
from headrace.sdk.recording.stored_cells import (
    UNREAD,
    StoredCell,
    json_value,
    key_id,
    plain_value,
    require_step,
    stored_cell,
)
from headrace.sdk.userstate.collection_states import pickles_in
from headrace.sdk.windows.window_namespace import RECORD, TimerTag

Window: TypeAlias = tuple[int, int] | None
_INSTANT = pa.timestamp("us", "UTC")
_WINDOW = pa.struct({"start": _INSTANT, "end": _INSTANT})
_TIMER = pa.struct({"name": pa.string(), "tag": pa.string(), "clock": pa.string(), "due": _INSTANT})
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Beginning of year 1, and of year 10000; microseconds UTC."""
_KEY_TYPES = (str, int, float, bool, bytes)
"""Types of keys that a column of their own type has."""


def read_state(
    checkpoint: str,
    step: str | None = None,
    *,
    at_epoch: int | None = None,
    unpickle: bool = False,
    checkpoint_key: str | None = None,
) -> pa.Table:
    """The stored state of a step, or of all steps, as a table: one row for each thing that is stored.

    Columns are step, key, window, cell, value as JSON, timers of the key and window in their first row, and the stored
    bytes where they are not in columns. The page on operating pipelines says what each has for which kind of step.

    Nothing is written, and a run that uses the checkpoint goes on undisturbed. The table is made in memory.

    Args:
        checkpoint: Directory or URL of the checkpoint.
        step: Label of a grouping, a `DoFn` with state or a raw computation; None for all steps.
        at_epoch: An earlier commit that is still in the log; by default the last one.
        unpickle: Whether pickles are loaded, and classes of keys imported, which runs code that the checkpoint names;
            without it, values and keys that only such code could tell are null, or their `repr`.
        checkpoint_key: The secret of a signed checkpoint; by default that of `HEADRACE_CHECKPOINT_KEY`.

    Raises:
        CheckpointError: There is no checkpoint, or no such epoch.
        LookupError: The checkpoint has no such step.

    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     with beam.Pipeline("LocalRunner", argv=[f"--checkpoint={place}"]) as pipeline:
    ...         _ = pipeline | beam.Create([("red", 1)]) | beam.CombinePerKey(sum)
    ...     read_state(place).column_names
    ['step', 'key', 'window', 'cell', 'value', 'timers', 'bytes']
    """
    view = CheckpointView.of(checkpoint, STANDARD_KEYS if unpickle else PLAIN, checkpoint_key)
    return state_table(view if at_epoch is None else view.at_epoch(at_epoch), step, unpickle)


def state_table(view: CheckpointView, step: str | None, unpickle: bool = False) -> pa.Table:
    """The table of `read_state`, of a view. Raises `UnknownStepError`."""
    if step is not None:
        require_step(view, step)
    rows = [row for name in (view.computations() if step is None else [step]) for row in _rows(view, name, unpickle)]
    columns = {
        "step": pa.array([row.step for row in rows], pa.string()),
        "key": _keys([row.key for row in rows]),
        "window": pa.array([_bounds(row.window) for row in rows], _WINDOW),
        "cell": pa.array([row.cell for row in rows], pa.string()),
        "value": pa.array([row.value for row in rows], pa.string()),
        "timers": pa.array([row.timers for row in rows], pa.list_(_TIMER)),
        "bytes": pa.array([row.data for row in rows], pa.large_binary()),
    }
    return pa.table(columns)


def _bounds(window: Window) -> dict[str, int | None] | None:
    return window and {"start": _instant(window[0]), "end": _instant(window[1])}


def _keys(keys: list[object]) -> pa.Array:
    """A column of keys: of their own type if that is one plain type, else texts."""
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= set(_KEY_TYPES):
        with suppress(pa.ArrowException, OverflowError):
            return pa.array(keys)
    return pa.array(map(repr, keys), pa.string())


@dataclass(slots=True)
class _Row:
    step: str
    key: object
    window: Window
    cell: str | None = None
    value: str | None = None
    data: bytes | None = None
    timers: list[dict[str, object]] = field(default_factory=list)


class _Line(NamedTuple):
    """A line of a vectorized grouping."""

    key: object
    window: Window
    cell: str
    columns: dict[str, object]


def _rows(view: CheckpointView, step: str, unpickle: bool) -> list[_Row]:
    """What is stored of a step; the rows of a key and window stand together."""
    found: dict[tuple[str, Window], list[_Row]] = {}
    for row in (*_of_cells(view, step, unpickle), *_of_lines(view, step, unpickle)):
        found.setdefault((key_id(row.key), row.window), []).append(row)
    for key, window, timer in _timers(view, step):
        found.setdefault((key_id(key), window), [_Row(step, key, window)])[0].timers.append(timer)
    return [row for rows in found.values() for row in rows]


def _of_cells(view: CheckpointView, step: str, unpickle: bool) -> Iterator[_Row]:
    coder, windowed = view.coder_of(step), has_windows(view, step)
    for state in view.states(step):
        if isinstance(state.state, bytes):
            value = (
                _value(state.state, unpickle) if coder is None else json.dumps(json_value(coder.decode(state.state)))
            )
            yield _Row(step, state.key, None, "state", value, state.state)
        for name, data in state.cells.items():
            cell = stored_cell(name, windowed)
            yield _Row(step, state.key, cell.window, cell.name, _cell_value(cell, data, unpickle), data)


def _value(data: bytes, unpickle: bool) -> str | None:
    """A stored value as JSON; None if it is no pickle that can be read here."""
    value = plain_value(data)
    if value is UNREAD and unpickle:
        with suppress(Exception):
            value = loads(data)
    return None if value is UNREAD else json.dumps(json_value(value))


def _cell_value(cell: StoredCell, data: bytes, unpickle: bool) -> str | None:
    if (pickles := pickles_in(cell.kind, cell.suffix, data)) is not None:
        parts = [_value(each, unpickle) for each in pickles]
        return None if None in parts else json.dumps([item for part in parts for item in json.loads(part or "[]")])
    value = _value(data, unpickle)
    if cell.code != RECORD or value is None:
        return value
    # The record of a window: its content, in a tuple, is the second field.
    _, content, *_ = json.loads(value)
    return json.dumps(content[0] if isinstance(content, list) and len(content) == 1 else content)


def _of_lines(view: CheckpointView, step: str, unpickle: bool) -> Iterator[_Row]:
    if has_windows(view, step):
        for line in _standing(view, step):
            columns = {name: _column(value, unpickle) for name, value in line.columns.items()}
            yield _Row(step, line.key, line.window, line.cell, json.dumps(columns))


def _column(value: object, unpickle: bool) -> object:
    text = _value(value, unpickle) if isinstance(value, bytes) else None
    return json_value(value) if text is None else json.loads(text)


def _standing(view: CheckpointView, step: str) -> Iterator[_Line]:
    """The lines of a grouping that are valid: none of a window that is over, and the newest of each window."""
    assert view.manifest is not None, "something is stored"
    over = view.manifest.input_watermarks.get(step, MIN_TIMESTAMP) - _lateness(view, step)
    newest: dict[tuple[str, Window, str], tuple[int, _Line]] = {}
    for stored in view.lines(step):
        columns = dict(stored.columns)
        start, end, age = (columns.pop(name, None) for name in ("start", "end", "age"))
        due = columns.pop("due", end)
        if not isinstance(start, int) or not isinstance(end, int) or (isinstance(due, int) and due <= over):
            continue
        is_shown = isinstance(age, int) and "flags" not in columns
        line = _Line(stored.key, _interval(start, end), "panes" if is_shown else "window", columns)
        if not isinstance(age, int):
            yield line
            continue
        place = (key_id(line.key), line.window, line.cell)
        if place not in newest or newest[place][0] <= age:
            newest[place] = (age, line)
    yield from (line for _, line in newest.values())


def _interval(start: int, end: int) -> Window:
    return None if start == MIN_TIMESTAMP else (start, end)


def _lateness(view: CheckpointView, step: str) -> int:
    """The allowed lateness of a step, microseconds."""
    assert view.manifest is not None, "something is stored"
    signature = dict(view.manifest.topology.of_kind(COMPUTATION)[step].signature)
    seconds = re.fullmatch(r"Duration\((.*)\)", signature.get("allowed lateness", ""))
    return 0 if seconds is None else round(float(seconds[1]) * 1e6)


def _timers(view: CheckpointView, step: str) -> Iterable[tuple[object, Window, dict[str, object]]]:
    windowed = has_windows(view, step)
    for timer in view.timers(step):
        parts = TimerTag.parse(timer.tag) if windowed else TimerTag("", timer.tag)
        name = parts.name or ("closing" if parts.closing else "window")
        told = {"name": name, "tag": parts.dynamic_tag, "clock": timer.domain.name.lower()}
        yield timer.key, parts.interval() if windowed else None, told | {"due": _instant(timer.timestamp)}


def _instant(timestamp: int) -> int | None:
    """A time in microseconds UTC; None before year 1 and after year 9999, which most readers of tables cannot show."""
    return timestamp if _FIRST <= timestamp < _LAST else None
