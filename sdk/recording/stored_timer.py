"""What a timer in a checkpoint waits for, by its tag: the end of a window, or the purpose that user code set it for."""

from __future__ import annotations

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import StoredTimer
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION
from headrace.lowlevel.topology.timer import TimeDomain
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.state_snapshot import OpenWindow, WaitingTimer
from headrace.sdk.windows.window_namespace import GLOBAL, TimerTag


def has_windows(view: CheckpointView, name: str) -> bool:
    """Whether a computation is a grouping or a `DoFn` with state, whose timers have tags that name windows."""
    assert view.manifest is not None, "something is committed"
    member = view.manifest.topology.of_kind(COMPUTATION).get(name)
    return member is not None and "windows" in dict(member.signature)


def meant_by(timer: StoredTimer, has_windows: bool) -> OpenWindow | WaitingTimer:
    """The window whose end a timer waits for, or the timer itself if user code set it.

    >>> from dataclasses import replace
    >>> end = StoredTimer("Sum", "red", "0:60000000", TimeDomain.LOW_WATERMARK, 60_000_000)
    >>> meant_by(end, True)
    OpenWindow(key='red', start=0, end=60000000)
    >>> meant_by(replace(end, tag="t0:60000000 4:idle"), True)
    WaitingTimer(key='red', timestamp=60000000, tag='idle', is_wall=False)
    """
    key, tag, is_wall = text_of(timer.key), timer.tag, timer.domain is TimeDomain.WALL_TIME
    if has_windows:
        parts = TimerTag.parse(tag)
        if parts.name is not None:
            tag = f"{parts.name} {parts.dynamic_tag}".strip()
        elif (interval := parts.interval()) is not None or parts.window == GLOBAL:
            if not is_wall:
                return OpenWindow(key, *(interval or (None, None)))
            tag = "trigger"
    return WaitingTimer(key, timer.timestamp, text_of(tag), is_wall)
