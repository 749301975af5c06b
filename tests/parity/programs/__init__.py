"""The corpus; importing it registers every program."""

from tests.parity.programs import (
    asserted,
    clocks,
    combines,
    elements,
    exceptions,
    files,
    flow,
    groups,
    keys,
    panes,
    stream_steps,
    stream_triggers,
    stream_windows,
    streams,
    util,
    windows,
)

__all__ = [
    "asserted",
    "clocks",
    "combines",
    "elements",
    "exceptions",
    "files",
    "flow",
    "groups",
    "keys",
    "panes",
    "stream_steps",
    "stream_triggers",
    "stream_windows",
    "streams",
    "util",
    "windows",
]
