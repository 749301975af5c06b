"""What is stored of single keys, and the pictures of a recorded run: read from a checkpoint when somebody asks.

Cells and columns of state are shown as text. No class that the state names is looked for: a value is shown if its
pickle makes nothing but json_value values.
"""

from __future__ import annotations

import ast
import pickle
import pickletools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import NamedTuple, TypeAlias

from headrace.lowlevel import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import StoredLine, StoredState
from headrace.lowlevel.coders.coder import STANDARD_KEYS, key_hash_of
from headrace.lowlevel.watermarks.explain import date_of
from headrace.runners.reporting.figures import shown_time
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.checkpoint_recording import recording_at
from headrace.sdk.recording.state_snapshot import has_windows
from headrace.sdk.userstate.state_spec import STATE
from headrace.sdk.visualization.plots.page import page
from headrace.sdk.visualization.plots.panel import panels
from headrace.sdk.windows.bounded import decode_interval, encode_interval
from headrace.sdk.windows.window_namespace import RECORD
from headrace.ui.checkpoint_report import instant, json_value, purpose_of, stored_data

SCANNED = 10_000
"""Entries that are looked at for the keys with the most state, at most."""
LISTED = 100
"""Rows that are listed, at most."""
_LONGEST_LITERAL = 1_000
"""Characters of a key that is read as a literal of Python; longer keys are looked for as text, or by their id."""


class UnknownStepError(LookupError):
    """The checkpoint has no such step. The message names those that it has."""


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


def key_id(key: object) -> str:
    """The hash of a key, as long as those of stores. Of a class that is not known here, that of its bytes."""
    return key_hash_of(STANDARD_KEYS.encode(key)).hex()


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


def require_step(view: CheckpointView, step: str) -> None:
    """Raise `UnknownStepError` for a step that keeps no state in a checkpoint."""
    if step not in view.computations():
        known = ", ".join(view.computations()) or "none"
        raise UnknownStepError(f"the checkpoint has no step {step!r:.80} that keeps state (steps: {known})")


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


UNREAD = object()
"""What stands for a value that only running code can tell."""
_LONGEST = 1 << 16
"""Bytes of a pickle that is shown."""
# fmt: off
_PLAIN = frozenset([
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "BINGET", "NONE", "NEWTRUE", "NEWFALSE", "BININT",
    "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT",
    "SETITEM", "SETITEMS", "EMPTY_SET", "ADDITEMS", "FROZENSET",
])
# fmt: on
"""The instructions of pickles that make json_value values; none of them imports or calls anything."""
_KINDS = frozenset(b"bcosv")
"""The kinds of user state (`headrace.sdk.userstate`), which stand before the length of its name."""
_INTERVAL = len(encode_interval(0, 0))


def value_text(value: object) -> str:
    """A stored value as text; a pickle of json_value values as these, any other one as bytes.

    >>> value_text(pickle.dumps((7, ["red"]))), value_text(pickle.dumps(ValueError))[:2]
    ("(7, ['red'])", "b'")
    """
    plain = plain_value(value) if isinstance(value, bytes) and len(value) <= _LONGEST else UNREAD
    return text_of(json_value(value) if plain is UNREAD else plain)


def plain_value(data: bytes) -> object:
    """The value of a pickle that makes json_value values and runs no code; `UNREAD` for other bytes.

    >>> plain_value(pickle.dumps([7])), plain_value(pickle.dumps(ValueError)) is UNREAD, plain_value(b"") is UNREAD
    ([7], True, True)
    """
    if data[:1] == pickle.PROTO:
        # Other bytes may look like a pickle.
        with suppress(Exception):
            if all(instruction.name in _PLAIN for instruction, _, _ in pickletools.genops(data)):
                return pickle.loads(data)
    return UNREAD


def column_text(name: str, value: object) -> str:
    """A column of a line as text; start and end of a window are times.

    >>> column_text("end", 60_000_000), column_text("count", 60_000_000)
    ('1970-01-01 00:01:00', '60000000')
    """
    return shown_time(value) if name in ("start", "end") and isinstance(value, int) else value_text(value)


class StoredCell(NamedTuple):
    """What a cell is, from its name."""

    name: str
    """The name of a user state, or what the engine keeps in the cell."""
    window: tuple[int, int] | None = None
    """Start and end of its window, microseconds UTC; None for the global window, and where there is no interval."""
    code: bytes = b""
    """First byte of the name of a cell that belongs to a window; else empty."""
    kind: bytes = b""
    """The kind of a user state (`headrace.sdk.userstate`); else empty."""
    suffix: bytes = b""
    """What follows the name of the user state."""


def stored_cell(name: bytes, has_windows: bool) -> StoredCell:
    """What a cell is, from its name in the storage of the key.

    `has_windows` says whether it is of a grouping or a `DoFn` with state, whose cells belong to windows.

    >>> stored_cell(STATE + bytes(2) + b"c" + bytes([5]) + b"count", True).name
    'count'
    >>> stored_cell(RECORD + encode_interval(0, 60_000_000), True)[:2]
    ('window', (0, 60000000))
    """
    code = name[:1]
    if has_windows and code == STATE and (found := _user_state(name)) is not None:
        return found
    meaning = {RECORD: "window", b"v": "values", STATE: "panes"}.get(code)
    if has_windows and meaning is not None and (window := _window(name[1:][:_INTERVAL])):
        return StoredCell(meaning, window, code)
    if has_windows and code == RECORD:
        return StoredCell("window", None, code)
    return StoredCell(name.decode() if name.isascii() and name.decode().isprintable() else repr(name)[2:-1])


def cell_names(name: bytes, has_windows: bool) -> dict[str, str]:
    """What a cell is, and its window, as text; see `stored_cell`.

    >>> cell_names(STATE + bytes(2) + b"c" + bytes([5]) + b"count", True)
    {'cell': "state 'count'"}
    >>> cell_names(RECORD + encode_interval(0, 60_000_000), True)
    {'cell': 'window', 'window': '1970-01-01 00:00:00 to 1970-01-01 00:01:00'}
    """
    cell = stored_cell(name, has_windows)
    told = {"cell": f"state {cell.name!r}" if cell.kind else cell.name}
    return told if cell.window is None else told | {"window": " to ".join(map(shown_time, cell.window))}


def _user_state(name: bytes) -> StoredCell | None:
    """A state of user code; None for another cell."""
    begin = 3 + int.from_bytes(name[1:3], "big")
    kind, rest = name[begin : begin + 1], name[begin + 1 :]
    if not rest or kind[0] not in _KINDS or len(rest) <= rest[0]:
        return None
    state, suffix = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
    return StoredCell(state.decode(errors="replace"), _window(name[3:begin]), name[:1], kind, suffix)


def _window(code: bytes) -> tuple[int, int] | None:
    return decode_interval(code) if len(code) == _INTERVAL else None
