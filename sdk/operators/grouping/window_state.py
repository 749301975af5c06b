"""The state of one key and window of a grouping: one stored record, besides cells with buffered values."""

from __future__ import annotations

from typing import Final

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.errors import CheckpointError
from headrace.sdk.triggers import FINISHED, Progress
from headrace.sdk.windows.window_namespace import WindowNamespace

FORMAT_VERSION = 2
"""Format version of the record. Change it with the persisted fields."""
TOMBSTONE: Final = b"finished"
"""The record of a window whose trigger has finished: its elements are dropped until the window closes."""
EMPTY: Final = object()
"""The content of a window that holds nothing."""


class WindowState:
    """The state of one key and window while a bundle runs. Class attributes are the values of a new window."""

    # Persisted.
    progress: Progress = None
    """The trigger's progress."""
    content: object = EMPTY
    """The window's content, in the form of its `Contents`."""
    fresh: int = 0
    """Number of elements since the last pane."""
    index: int = 0
    """Number of panes so far."""
    nonspeculative: int = 0
    """Number of panes so far that were not EARLY."""
    timely: bool = True
    """Whether the next pane that is not EARLY is ON_TIME; otherwise it is LATE."""
    stamp: int | None = None
    """Combined timestamp of the next pane, microseconds UTC; None for the end of the window."""
    timer: int | None = None
    """Timestamp of the window's event-time timer, microseconds UTC."""
    wake: int | None = None
    """Timestamp of the window's wall-time timer, microseconds UTC."""
    held: int | None = None
    """Timestamp of the window's hold, microseconds UTC."""
    live: int = 0
    """Number of elements that the window holds and that were not retracted."""
    shown: bool = False
    """Whether emitted panes of the window are stored, so that they can be retracted."""

    # Not persisted.
    due: int
    """The next watermark at which the window is processed: its end or its closing; microseconds UTC."""
    stored: bool = False
    """Whether the committed state has a record of the window."""
    changed: bool = False
    """Whether the record has to be written."""
    removed: bool = False
    """Whether the window was closed or merged into another."""
    shared: bool = False
    """Whether a pane or another window may hold the content's object, which then must not be changed in place."""

    def __init__(self, namespace: WindowNamespace) -> None:
        self.namespace = namespace

    @property
    def finished(self) -> bool:
        """Whether the trigger has finished."""
        return self.progress is FINISHED

    @property
    def wanted_hold(self) -> int | None:
        """The hold for the next pane, microseconds UTC; None if the output watermark cannot or may pass it."""
        if self.stamp is not None:
            return self.stamp
        ended = self.due != self.namespace.end
        return self.namespace.last if ended and self.fresh and self.timely else None

    def count_pane(self, early: bool) -> None:
        """Count an emitted pane."""
        self.index += 1
        if not early:
            self.nonspeculative += 1
            self.timely = False

    def encode(self, packed: object) -> bytes:
        """Encode the record; `packed` is the content as `Contents.pack` returned it."""
        if self.finished:
            return TOMBSTONE
        persisted = (
            FORMAT_VERSION,
            packed,
            self.progress,
            self.fresh,
            self.index,
            self.nonspeculative,
            self.timely,
            self.stamp,
            self.timer,
            self.wake,
            self.held,
            self.live,
            self.shown,
        )
        return dumps(persisted)

    @classmethod
    def decode(cls, namespace: WindowNamespace, data: bytes) -> WindowState:
        """Decode a record; the content is still packed. Raises `CheckpointError` for another format version."""
        state = cls(namespace)
        state.stored = True
        if data == TOMBSTONE:
            state.progress = FINISHED
            state.timer = state.due = namespace.closes
            return state
        version, *persisted = loads(data)
        if version != FORMAT_VERSION:
            raise CheckpointError(
                f"the record of window {namespace.window} has format {version}, this release reads {FORMAT_VERSION}; "
                "go on with the release that wrote the checkpoint"
            )
        (
            state.content,
            state.progress,
            state.fresh,
            state.index,
            state.nonspeculative,
            state.timely,
            state.stamp,
            state.timer,
            state.wake,
            state.held,
            state.live,
            state.shown,
        ) = persisted
        assert state.timer is not None, "a stored window always has its timer"
        state.due = state.timer
        return state
