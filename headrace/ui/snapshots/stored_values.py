"""What cells and columns of stored state are, as text: names of cells, times of windows, and json_value values.

No class that the state names is looked for: a value is shown if its pickle makes nothing but json_value values.
"""

from __future__ import annotations

import pickle
import pickletools

from headrace.runners.reporting.figures import shown_time
from headrace.sdk.model.short_text import text_of
from headrace.sdk.userstate.state_spec import STATE
from headrace.sdk.windows.bounded import decode_interval, encode_interval
from headrace.sdk.windows.window_namespace import RECORD
from headrace.ui.snapshots.checkpoint_report import json_value

_LONGEST = 1 << 16
"""Bytes of a pickle that is read."""
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
    if isinstance(value, bytes) and value[:1] == pickle.PROTO and len(value) <= _LONGEST:
        try:
            if all(instruction.name in _PLAIN for instruction, _, _ in pickletools.genops(value)):
                return text_of(pickle.loads(value))
        except Exception:
            # It only looks like a pickle.
            return text_of(value)
    return text_of(json_value(value))


def column_text(name: str, value: object) -> str:
    """A column of a line as text; start and end of a window are times.

    >>> column_text("end", 60_000_000), column_text("count", 60_000_000)
    ('1970-01-01 00:01:00', '60000000')
    """
    return shown_time(value) if name in ("start", "end") and isinstance(value, int) else value_text(value)


def cell_names(name: bytes, has_windows: bool) -> dict[str, str]:
    """What a cell is, and its window, from its name.

    Args:
        name: The name in the storage of the key.
        has_windows: Whether it is of a grouping or a `DoFn` with state, whose cells belong to windows.

    >>> cell_names(STATE + bytes(2) + b"c" + bytes([5]) + b"count", True)
    {'cell': "state 'count'"}
    >>> cell_names(RECORD + encode_interval(0, 60_000_000), True)
    {'cell': 'window', 'window': '1970-01-01 00:00:00 to 1970-01-01 00:01:00'}
    """
    if has_windows and name[:1] == STATE and (found := _user_state(name)) is not None:
        return found
    meaning = {RECORD: "window", b"v": "values", STATE: "panes"}.get(name[:1])
    if has_windows and meaning is not None and (window := _window(name[1:][:_INTERVAL])):
        return {"cell": meaning, "window": window}
    return {"cell": name.decode() if name.isascii() and name.decode().isprintable() else repr(name)[2:-1]}


def _user_state(name: bytes) -> dict[str, str] | None:
    """The name of a state of user code, and its window if that is not the global one; None for another cell."""
    begin = 3 + int.from_bytes(name[1:3], "big")
    kind, rest = name[begin : begin + 1], name[begin + 1 :]
    if not rest or kind[0] not in _KINDS or len(rest) <= rest[0]:
        return None
    state, window = f"state {rest[1 : 1 + rest[0]].decode(errors='replace')!r}", _window(name[3:begin])
    return {"cell": state, "window": window} if window else {"cell": state}


def _window(code: bytes) -> str:
    return " to ".join(map(shown_time, decode_interval(code))) if len(code) == _INTERVAL else ""
