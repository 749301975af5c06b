"""The state of one key and window of a grouping: one stored record, besides cells with buffered values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import attrgetter
from typing import Final, Self

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.timer import TimeDomain
from headrace.sdk.combinefns.combine_fn import private_copy
from headrace.sdk.triggers import FINISHED, Progress
from headrace.sdk.windows import TimestampCombiner
from headrace.sdk.windows.window_namespace import WindowNamespace

FORMAT_VERSION = 2
"""Format version of the record. Change it with the persisted fields."""
_FIELDS = ("progress", "fresh", "index", "nonspeculative", "timely", "stamp", "timer", "wake", "held", "live", "shown")
"""The fields of the record, after its version and content."""
_fields_of = attrgetter(*_FIELDS)
TOMBSTONE: Final = b"finished"
"""The record of a window whose trigger has finished: its elements are dropped until the window closes."""
EMPTY: Final = object()
"""The content of a window that holds nothing."""


class WindowState:
    """The state of one key and window while a bundle runs. Class attributes are the values of a new window.

    A window *ends* when the watermark reaches its end, and *closes* when the watermark reaches its end plus the allowed
    lateness. Only the methods of this class write the fields. Between two of their calls this is true:

    - `due` is the end of the window until the window has ended or its trigger has finished, then its closing.
    - `timely` is false after a pane that was not EARLY, so that a window has at most one ON_TIME pane. It is also false
      if an ended window has no new elements, so that a later element cannot hold the output watermark back.
    - `live` is the number of elements in `content` minus those that retractions have removed from it; it is 0 if the
      content is `EMPTY`, and below 0 if more were removed than have come.
    - `fresh` is the number of elements that were added to the content or removed from it since the last pane. It is 0
      after each pane, whether or not the content was discarded.

    A record that is written has a timer at `due`, and the hold that `wanted_hold` gives.
    """

    # Persisted; see `_FIELDS`.
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
    """Number of elements that came, and were not discarded, minus those that were retracted."""
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

    def __init__(self, namespace: WindowNamespace, watermark: int = MIN_TIMESTAMP) -> None:
        """Open a window at a watermark, microseconds UTC."""
        self.namespace = namespace
        if watermark < namespace.end:
            self.due = namespace.end
        else:
            self.due = namespace.closes
            self.timely = False

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

    # Elements

    def add(self, elements: int) -> None:
        """Count elements that are added to the content."""
        self.changed = True
        self.fresh += elements
        self.live += elements

    def remove(self, elements: int) -> None:
        """Count elements that are removed from the content, which were retracted."""
        self.changed = True
        self.fresh += elements
        self.live -= elements

    def stamp_elements(self, timestamps: Sequence[int], watermark: int, combiner: TimestampCombiner) -> None:
        """Combine the timestamps of elements that are not below the output watermark into the next pane's timestamp."""
        floor = watermark if self.held is None else min(watermark, self.held)
        timely = [time for time in timestamps if time >= floor]
        if self.stamp is not None:
            timely.append(self.stamp)
        if timely:
            self.stamp = reduce(combiner.combine, timely)

    # Content

    def hold_content(self, content: object) -> None:
        """Replace the content, after `own_content` if there was any."""
        self.content = content

    def share_content(self) -> object:
        """The content, of which a pane or another window may keep the object."""
        self.shared = True
        return self.content

    def own_content(self) -> object:
        """The content, to be changed in place; a copy if others may hold the object."""
        if self.shared:
            self.content = private_copy(self.content)
            self.shared = False
        return self.content

    def empty(self) -> None:
        """Drop the content, after a pane that discards it or with the window."""
        self.content, self.shared, self.live = EMPTY, False, 0

    # Trigger and panes

    def progress_to(self, progress: Progress) -> None:
        """Keep the trigger's progress after new elements."""
        self.progress = progress

    def fire(self, progress: Progress) -> None:
        """Keep the trigger's progress after it has fired."""
        self.progress = progress
        self.changed = True

    def count_pane(self, early: bool) -> None:
        """Count an emitted pane."""
        self.index += 1
        if not early:
            self.nonspeculative += 1

    def begin_pane(self, early: bool, keeps_stamp: bool) -> None:
        """Begin the next pane, whose elements are still to come.

        Args:
            early: Whether the last pane was EARLY. If not, there is no further ON_TIME pane, even if the last one was
                left out because the window was empty: the output watermark has passed its timestamp.
            keeps_stamp: Whether the elements so far count for the timestamp of the next pane.
        """
        self.fresh = 0
        if not early:
            self.timely = False
        if not keeps_stamp:
            self.stamp = None

    def show(self, shown: bool) -> None:
        """Note whether emitted panes are stored."""
        self.shown = shown

    # Timers, end and closing

    def timer_fired(self, domain: TimeDomain) -> None:
        """Note that a timer of the window has fired."""
        self.changed = True
        if domain is TimeDomain.LOW_WATERMARK:
            self.timer = None
        else:
            self.wake = None

    def wake_at(self, wall_time: int | None) -> None:
        """Note the wall-time timer, microseconds UTC; None if it is deleted."""
        self.wake = wall_time
        self.changed = True

    def end(self) -> None:
        """Note that the watermark has reached the end of the window."""
        self.changed = True
        self.due = self.namespace.closes

    def miss_on_time(self) -> None:
        """Give up the ON_TIME pane of an ended window without new elements."""
        self.timely = False

    def finish(self) -> None:
        """Note that the trigger has finished: the window has no further pane and waits for its closing."""
        self.stamp = None
        self.due = self.namespace.closes

    def free(self) -> None:
        """Note that the window was closed or merged into another."""
        self.removed = True

    # Merging and splitting

    def join(self, parts: Sequence[WindowState], progress: Progress, combiner: TimestampCombiner, ended: bool) -> None:
        """Take over the state of several windows, of which this may be one; the content is moved apart.

        Args:
            parts: The windows.
            progress: Progress of the trigger for the merged window.
            combiner: Combines the timestamps of the parts' next panes.
            ended: Whether the merged window has ended.
        """
        stamps = [part.stamp for part in parts if part.stamp is not None]
        self.progress = progress
        self.fresh = sum(part.fresh for part in parts)
        self.live = sum(part.live for part in parts)
        # A window has at most one ON_TIME pane.
        awaits_on_time = not self.nonspeculative and any(part.timely for part in parts)
        self.timely = not ended or awaits_on_time
        self.stamp = reduce(combiner.combine, stamps) if stamps else None
        self.due = self.namespace.closes if ended else self.namespace.end
        self.changed = True

    def inherit_stamp(self, whole: WindowState) -> None:
        """Take over the timestamp of the next pane of a window that was split."""
        self.stamp = whole.stamp

    def inherit_numbers(self, whole: WindowState) -> None:
        """Take over the pane numbers of a window that was split."""
        self.index, self.nonspeculative = whole.index, whole.nonspeculative

    # Storage

    def set_marks(self, hold: int | None) -> None:
        """Note that the timer is set to `due`, and the hold to `hold`, microseconds UTC; None if it is released."""
        self.timer, self.held = self.due, hold

    def encode(self, packed: object) -> bytes:
        """Encode the record; `packed` is the content as `Contents.pack` returned it."""
        if self.finished:
            return TOMBSTONE
        return dumps((FORMAT_VERSION, packed, *_fields_of(self)))

    @classmethod
    def decode(cls, namespace: WindowNamespace, data: bytes, unpack: Callable[[object], object]) -> Self:
        """Decode a record; `unpack` is that of the `Contents`. Raises `CheckpointError` for another format version."""
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
        packed, *fields = persisted
        vars(state).update(zip(_FIELDS, fields, strict=True))
        assert state.timer is not None, "a stored window always has its timer"
        state.due = state.timer
        state.content = unpack(packed)
        return state

    @classmethod
    def of_segment(
        cls,
        namespace: WindowNamespace,
        due: int,
        elements: tuple[int, int],
        content: object = EMPTY,
        panes: tuple[int, int, bool] = (0, 0, True),
        progress: Progress = None,
        wake: int | None = None,
    ) -> Self:
        """A window that a vectorized grouping has stored.

        Args:
            namespace: The window.
            due: Timestamp of its timer, microseconds UTC.
            elements: The fields `fresh` and `live`.
            content: Its content.
            panes: The fields `index`, `nonspeculative` and `timely`.
            progress: The trigger's progress.
            wake: Timestamp of its wall-time timer, microseconds UTC.
        """
        state = cls(namespace)
        state.timer = state.due = due
        state.fresh, state.live = elements
        state.content = content
        state.index, state.nonspeculative, state.timely = panes
        state.progress, state.wake = progress, wake
        return state
