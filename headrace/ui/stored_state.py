"""What is stored of single keys, and the pictures of a recorded run: read from a checkpoint when somebody asks.

Cells and columns of state are shown as text. No class that the state names is looked for: a value is shown if its
pickle makes nothing but json_value values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import TypeAlias

from headrace.lowlevel import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import StoredLine, StoredState
from headrace.lowlevel.watermarks.explain import date_of
from headrace.runners.reporting.figures import shown_time
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.checkpoint_recording import recording_at
from headrace.sdk.recording.state_snapshot import has_windows
from headrace.sdk.recording.stored_cells import UNREAD, json_value, key_id, plain_value, require_step, stored_cell
from headrace.sdk.visualization.plots.page import page
from headrace.sdk.visualization.plots.panel import panels
from headrace.ui.checkpoint_report import instant, purpose_of, stored_data

SCANNED = 10_000
"""Entries that are looked at for the keys with the most state, at most."""
LISTED = 100
"""Rows that are listed, at most."""
_LONGEST_LITERAL = 1_000
"""Characters of a key that is read as a literal of Python; longer keys are looked for as text, or by their id."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """How much is stored of one key."""

    key: str
    id: str
    """Names the key in a question, as its text may be cut short, or be that of another one, too."""
    entries: int
    """Cells, or lines of columns."""
    bytes: int | None
    """Bytes of its cells; None where the state is in columns."""


@dataclass(frozen=True, slots=True)
class KeyList:
    """The keys of a step with the most state."""

    epoch: int
    keys: Sequence[KeyRow]
    scanned: int
    """Entries that were looked at."""
    complete: bool
    """Whether those were all entries of the step."""
    timers: Sequence[dict[str, object]]
    """The next timers of the step."""


KeyEntry: TypeAlias = dict[str, str]
"""One thing that is stored of a key, as name -> text."""


def largest_keys(view: CheckpointView, step: str, most: int = LISTED) -> KeyList:
    """The keys of a step with the most state, among the first `SCANNED` entries. Raises `UnknownStepError`."""
    require_step(view, step)
    assert view.manifest is not None, "a step is known"
    keys: dict[str, object] = {}
    entries: dict[str, int] = {}
    sizes: dict[str, int] = {}
    scanned, complete = 0, True
    for key, size in _entries(view, step):
        if scanned == SCANNED:
            complete = False
            break
        scanned += 1
        name = key_id(key)
        keys.setdefault(name, key)
        entries[name] = entries.get(name, 0) + 1
        if size is not None:
            sizes[name] = sizes.get(name, 0) + size
    rows = (KeyRow(_key_text(keys[name]), name, count, sizes.get(name)) for name, count in entries.items())
    largest = nlargest(most, rows, lambda row: (row.bytes or 0, row.entries))
    return KeyList(view.manifest.epoch, largest, scanned, complete, _timers(view, step))


def _key_text(key: object) -> str:
    r"""A key as text. One that is a text is in quotes where it would be taken for something else, or cannot be seen.

    >>> [_key_text(key) for key in ("red", 7, "7", " ", "a\nb", ("red", 7))]
    ['red', '7', "'7'", "' '", "'a\\nb'", "('red', 7)"]
    """
    is_plain = not isinstance(key, str) or (
        key == key.strip() != "" and key.isprintable() and len([*_meanings(key)]) == 1
    )
    return text_of(key if is_plain else repr(key))


def _entries(view: CheckpointView, step: str) -> Iterator[tuple[object, int | None]]:
    """(key, bytes) of each cell and line; lines have no size of their own."""
    for state in view.states(step):
        for data in stored_data(state):
            yield state.key, len(data)
    for line in view.lines(step):
        yield line.key, None


def _timers(view: CheckpointView, step: str, most: int = 10) -> list[dict[str, object]]:
    return [
        {
            "key": _key_text(timer.key),
            "for": purpose_of(view, timer),
            "clock": timer.domain.name.lower().replace("_", " "),
            "due": instant(timer.timestamp),
        }
        for timer in view.timers(step, limit=most)
    ]


def entries_of_key(view: CheckpointView, step: str, key: str) -> list[KeyEntry]:
    """Everything that is stored of a key, written as text or as a Python literal. Raises `UnknownStepError`."""
    require_step(view, step)
    found = []
    for value in _meanings(key):
        # A value may be of a type that no key of the checkpoint can have.
        with suppress(TypeError, ValueError):
            found += _entries_of(view, step, view.state_of(step, value), view.lines_of(step, value))
    return found


def first_keys(view: CheckpointView, step: str, most: int) -> dict[str, list[KeyEntry]]:
    """Everything that is stored of up to `most` keys, by the text of the key, with their next timers.

    Raises `UnknownStepError`.
    """
    require_step(view, step)
    found: dict[str, list[KeyEntry]] = {}
    for state in islice(view.states(step), most):
        found.setdefault(_key_text(state.key), []).extend(_of_state(view, step, state))
    for line in islice(view.lines(step), most):
        found.setdefault(_key_text(line.key), []).append(_of_line(line))
    for timer in view.timers(step, limit=most):
        due = timer.domain.name.lower().replace("_", " ")
        entry = {"cell": "timer", "for": purpose_of(view, timer), "due": f"{date_of(timer.timestamp)} ({due})"}
        found.setdefault(_key_text(timer.key), []).append(entry)
    return dict(islice(found.items(), most))


def entries_of_id(view: CheckpointView, step: str, key: str) -> list[KeyEntry]:
    """Everything that is stored of a key of `largest_keys`, by its id. Raises `UnknownStepError`."""
    require_step(view, step)
    state = next((state for state in islice(view.states(step), SCANNED) if key_id(state.key) == key), None)
    lines = [line for line in islice(view.lines(step), SCANNED) if key_id(line.key) == key]
    return _entries_of(view, step, state, lines)


def _entries_of(
    view: CheckpointView, step: str, state: StoredState | None, lines: Iterable[StoredLine]
) -> list[KeyEntry]:
    found = [] if state is None else list(_of_state(view, step, state))
    return [*found, *map(_of_line, islice(lines, LISTED))]


def _of_line(line: StoredLine) -> KeyEntry:
    return {name: column_text(name, value) for name, value in line.columns.items()}


def _meanings(key: str) -> Iterator[object]:
    """The key as text, and what it is as a literal of Python.

    >>> list(_meanings("(1, 'a')")), list(_meanings("red"))
    (["(1, 'a')", (1, 'a')], ['red'])
    """
    yield key
    if len(key) <= _LONGEST_LITERAL:
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            yield ast.literal_eval(key)


def _of_state(view: CheckpointView, step: str, state: StoredState) -> Iterator[KeyEntry]:
    if isinstance(state.state, bytes):
        coder = view.coder_of(step)
        if coder is None:
            yield {"cell": "state", **_contents(state.state)}
        else:
            yield {"cell": "state", "value": value_text(coder.decode(state.state))}
    of_windows = has_windows(view, step)
    for name, data in state.cells.items():
        yield {**cell_names(name, of_windows), **_contents(data)}


def _contents(data: bytes) -> dict[str, str]:
    value = value_text(data)
    return ({} if value.startswith(("b'", 'b"')) else {"value": value}) | {"bytes": f"{len(data):,}"}


@dataclass(frozen=True, slots=True)
class DrawableStep:
    """A step that can be drawn, and its keys, the one with the most elements first."""

    step: str
    recorded: bool
    summary: str
    keys: Sequence[str]


def recorded_steps(place: str, key: str | None = None) -> list[DrawableStep]:
    """The steps that can be drawn; the key is the secret of a signed checkpoint, None for that of the environment."""
    return [
        DrawableStep(step.label, step.standing is None, step.summary(), step.keys()[:LISTED])
        for step in recording_at(place, key).steps
    ]


def panes_page(place: str, step: str | None, key: str | None, secret: str | None = None) -> str:
    """The page that plays the run of a step and a key, see `recorded_steps`. Raises `RecordingError`."""
    return page(panels(recording_at(place, secret), step, key, None))


_LONGEST = 1 << 16
"""Bytes of a pickle that is shown."""


def value_text(value: object) -> str:
    """A stored value as text; a pickle of json_value values as these, any other one as bytes.

    >>> import pickle
    >>> value_text(pickle.dumps((7, ["red"]))), value_text(pickle.dumps(ValueError))[:2]
    ("(7, ['red'])", "b'")
    """
    plain = plain_value(value) if isinstance(value, bytes) and len(value) <= _LONGEST else UNREAD
    return text_of(json_value(value) if plain is UNREAD else plain)


def column_text(name: str, value: object) -> str:
    """A column of a line as text; start and end of a window are times.

    >>> column_text("end", 60_000_000), column_text("count", 60_000_000)
    ('1970-01-01 00:01:00', '60000000')
    """
    return shown_time(value) if name in ("start", "end") and isinstance(value, int) else value_text(value)


def cell_names(name: bytes, has_windows: bool) -> dict[str, str]:
    """What a cell is, and its window, as text; see `stored_cell`.

    >>> from headrace.sdk.userstate.state_spec import STATE
    >>> from headrace.sdk.windows.bounded import encode_interval
    >>> from headrace.sdk.windows.window_namespace import RECORD
    >>> cell_names(STATE + bytes(2) + b"c" + bytes([5]) + b"count", True)
    {'cell': "state 'count'"}
    >>> cell_names(RECORD + encode_interval(0, 60_000_000), True)
    {'cell': 'window', 'window': '1970-01-01 00:00:00 to 1970-01-01 00:01:00'}
    """
    cell = stored_cell(name, has_windows)
    told = {"cell": f"state {cell.name!r}" if cell.kind else cell.name}
    return told if cell.window is None else told | {"window": " to ".join(map(shown_time, cell.window))}
