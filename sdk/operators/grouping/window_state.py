"""What a grouping keeps of one key and window, and how it is stored: one cell, besides buffered values."""

from __future__ import annotations

import pickle
from typing import Final

from headrace.lowlevel.errors import CheckpointError
from headrace.sdk.frames import Frame
from headrace.sdk.triggers import FINISHED, Progress

FORMAT_VERSION = 2
"""Of the record. Change it with the persisted fields."""
TOMBSTONE: Final = b"finished"
"""The record of a window whose trigger has finished: until it closes, what comes for it is dropped."""
EMPTY: Final = object()
"""The content of a window that holds nothing."""


class WindowState:
    """One key's window while a bundle runs. The class attributes are what a new window begins with."""

    # Persisted.
    progress: Progress = None
    """What the trigger remembers."""
    content: object = EMPTY
    """What the window holds, as its `Contents` keeps it."""
    fresh: int = 0
    """Elements since the last pane."""
    index: int = 0
    """Panes so far."""
    nonspeculative: int = 0
    """Panes so far that were not EARLY."""
    timely: bool = True
    """Whether a pane at or after the end of the window is ON_TIME: elements were there in time, and none was yet."""
    stamp: int | None = None
    """Combined timestamp of the next pane, microseconds UTC; None for the end of the window."""
    timer: int | None = None
    """What the event-time timer of this window is set to, microseconds UTC."""
    wake: int | None = None
    """What the wall-time timer of this window is set to, microseconds UTC."""
    held: int | None = None
    """What the hold of this window is set to, microseconds UTC."""
    live: int = 0
    """Elements in the window that were not taken back, as far as it still holds them."""
    shown: bool = False
    """Whether panes of the window are stored so that they can be taken back."""

    # Not persisted.
    due: int
    """When the watermark next matters: the window's end, or its closing."""
    stored: bool = False
    """Whether the committed state has a record of the window."""
    changed: bool = False
    """Whether the record has to be written."""
    removed: bool = False
    """Whether the window was closed or merged into another."""
    shared: bool = False
    """Whether the content was handed out and must not be changed in place."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @property
    def finished(self) -> bool:
        """Whether the trigger has finished."""
        return self.progress is FINISHED

    @property
    def wanted_hold(self) -> int | None:
        """Where the output watermark has to wait for the next pane; None if it need not, or cannot pass it anyway."""
        if self.stamp is not None:
            return self.stamp
        ended = self.due != self.frame.end
        return self.frame.last if ended and self.fresh and self.timely else None

    def count_pane(self, early: bool) -> None:
        """A pane was put out."""
        self.index += 1
        if not early:
            self.nonspeculative += 1
            self.timely = False

    def encode(self, packed: object) -> bytes:
        """The record; `packed` is the content as it is stored."""
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
        return pickle.dumps(persisted, pickle.HIGHEST_PROTOCOL)

    @classmethod
    def decode(cls, frame: Frame, data: bytes) -> WindowState:
        """The state of a record; its content is still as it was packed."""
        state = cls(frame)
        state.stored = True
        if data == TOMBSTONE:
            state.progress = FINISHED
            state.timer = state.due = frame.closes
            return state
        version, *persisted = pickle.loads(data)
        if version != FORMAT_VERSION:
            raise CheckpointError(
                f"the record of window {frame.window} has format {version}, this release reads {FORMAT_VERSION}; "
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
