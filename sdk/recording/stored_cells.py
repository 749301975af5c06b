"""What the cells of a checkpoint are, and the plain values in them, without running code that the checkpoint names."""

from __future__ import annotations

import pickle
import pickletools
from contextlib import suppress
from typing import NamedTuple

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.coders.coder import STANDARD_KEYS, key_hash_of
from headrace.sdk.userstate.state_spec import STATE
from headrace.sdk.windows.bounded import decode_interval, encode_interval
from headrace.sdk.windows.window_namespace import RECORD

UNREAD = object()
"""What stands for a value that only running code can tell."""
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


class UnknownStepError(LookupError):
    """The checkpoint has no such step. The message names those that it has.

    >>> raise UnknownStepError("the checkpoint has no step 'Smu' that keeps state (steps: Sum)")
    Traceback (most recent call last):
      ...
    headrace.sdk.recording.stored_cells.UnknownStepError: the checkpoint has no step 'Smu' that keeps state (steps: Sum)
    """


def require_step(view: CheckpointView, step: str) -> None:
    """Raise `UnknownStepError` for a step that keeps no state in a checkpoint."""
    if step not in view.computations():
        known = ", ".join(view.computations()) or "none"
        raise UnknownStepError(f"the checkpoint has no step {step!r:.80} that keeps state (steps: {known})")


def key_id(key: object) -> str:
    """The hash of a key, as long as those of stores. Of a class that is not known here, that of its bytes."""
    return key_hash_of(STANDARD_KEYS.encode(key)).hex()


def json_value(value: object) -> object:
    """Return a key or position as a value for JSON; an object that JSON cannot represent becomes its `repr`.

    >>> json_value(("a", 1, b"x"))
    ['a', 1, "b'x'"]
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    return repr(value)


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
