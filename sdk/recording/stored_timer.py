"""What a timer that lies in a checkpoint waits for, from its tag: the end of a window, or what user code set it for."""

from __future__ import annotations

import re

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.checkpoint.fingerprint import COMPUTATION
from headrace.lowlevel.checkpoint.listing import StoredTimer
from headrace.lowlevel.timer import TimeDomain
from headrace.sdk.shorttext import text_of
from headrace.sdk.standing import OpenWindow, WaitingTimer

_WINDOW = re.compile(r"u?(-?\d+):(-?\d+)|u?global")
"""Tags of the timers that wait for the end of a window, or its closing."""
_NAMED = re.compile(r"t(?:-?\d+:-?\d+|global|[0-9a-f]*) (\d+):(.*)", re.DOTALL)
"""Tags of the timers of a `DoFn`: window, length of the name, name and dynamic tag."""


def has_windows(view: CheckpointView, name: str) -> bool:
    """Whether it is a grouping or a `DoFn` with state, whose tags of timers say windows."""
    assert view.manifest is not None, "something is committed"
    member = view.manifest.topology.of_kind(COMPUTATION).get(name)
    return member is not None and "windows" in dict(member.signature)


def meant_by(timer: StoredTimer, has_windows: bool) -> OpenWindow | WaitingTimer:
    """What a timer waits for: the end of a window, or what user code set it for.

    >>> from dataclasses import replace
    >>> end = StoredTimer("Sum", "red", "0:60000000", TimeDomain.LOW_WATERMARK, 60_000_000)
    >>> meant_by(end, True)
    OpenWindow(key='red', start=0, end=60000000)
    >>> meant_by(replace(end, tag="t0:60000000 4:idle"), True)
    WaitingTimer(key='red', timestamp=60000000, tag='idle', is_wall=False)
    """
    key, tag, is_wall = text_of(timer.key), timer.tag, timer.domain is TimeDomain.WALL_TIME
    if has_windows:
        if (window := _WINDOW.fullmatch(tag)) is not None:
            if not is_wall:
                start, end = window.groups()
                return OpenWindow(key, None if start is None else int(start), None if end is None else int(end))
            tag = "trigger"
        elif (named := _NAMED.fullmatch(tag)) is not None:
            length, names = int(named[1]), named[2]
            tag = f"{names[:length]} {names[length:]}".strip()
    return WaitingTimer(key, timer.timestamp, text_of(tag), is_wall)
