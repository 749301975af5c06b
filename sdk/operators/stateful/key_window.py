"""What a stateful step has of one key and window while a bundle runs, and how all of it goes when the window closes."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.computation import Context
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.timer import TimeDomain
from headrace.sdk.frames import Frame
from headrace.sdk.stateful.cells import Cells, prefix_of
from headrace.sdk.stateful.spec import State
from headrace.sdk.stateful.timer import UserTimer
from headrace.sdk.stateful.timerspec import TimerSpec

TIMER = "t"
"""First letter of the tags of a `DoFn`'s timers; the window's tag, a space, and the timer's name and tag follow."""
CLOSING = "u"
"""First letter of the tag of the timer that waits for a window to close; at the same instant it fires last."""


class Place(NamedTuple):
    """A window with the names that its state and timers have, the same for all keys."""

    frame: Frame
    cells: bytes
    """What the names of its cells begin with."""
    timers: str
    """What the tags of its timers begin with."""
    closing: str
    """The tag of the timer that waits for its closing."""

    @classmethod
    def of(cls, frame: Frame) -> Place:
        """That of a frame."""
        return cls(frame, prefix_of(frame.code), f"{TIMER}{frame.tag} ", CLOSING + frame.tag)


class KeyWindow(Cells):
    """State and timers of one key and window. Cells are read when they are asked for and written at the end."""

    __slots__ = (
        "_cover",
        "_moved",
        "_timers",
        "_wall_cleared",
        "_wall_set",
        "arguments",
        "at",
        "closed",
        "frame",
        "place",
        "sides",
        "states",
    )

    def __init__(self, place: Place, context: Context) -> None:
        # What `Cells` would do, without a call: there are more windows than anything else.
        self.context, self.prefix, self.written, self.erased = context, place.cells, False, False
        self.place = place
        self.frame = place.frame
        self.at = MIN_TIMESTAMP
        """Timestamp of the current element, or output timestamp of the current timer; microseconds UTC."""
        self.closed = False
        """Whether everything of the window was taken away."""
        self.sides: tuple[object, ...] = ()
        """Side values of the current element."""
        self.arguments: tuple[list[object], dict[str, object]] | None = None
        """How `process` is called here, made when it first is."""
        self.states: dict[str, State] = {}
        """Those that were asked for, by name."""
        self._timers: dict[str, UserTimer] = {}
        self._cover: str | None = None
        """Tag of a timer that was set to the instant at which the window closes."""
        self._moved = False
        """Whether timers on the watermark were set to other instants, or taken away."""
        self._wall_set = False
        self._wall_cleared = False

    def timer(self, spec: TimerSpec) -> UserTimer:
        """A timer."""
        found = self._timers.get(spec.name)
        if found is None:
            found = self._timers[spec.name] = UserTimer(spec, self)
        return found

    def set_timer(self, tag: str, timestamp: int, hold: int | None = None) -> None:
        """Set a timer on the watermark, at the closing of the window at the latest."""
        self.context.set_timer(tag, timestamp, hold=hold)
        if timestamp == self.frame.closes:
            self._cover = tag
        else:
            self._moved = True

    def clear_timer(self, tag: str) -> None:
        """Take a timer on the watermark away."""
        self.context.delete_timer(tag)
        self._moved = True

    def timer_fired(self, name: str) -> None:
        """The timer of a spec is set no more."""
        if (timer := self._timers.get(name)) is not None:
            timer.forget()

    def set_wall_timer(self, tag: str, timestamp: int, hold: int) -> None:
        """Set a timer on wall time, which may be left when the window closes."""
        self.context.set_timer(tag, timestamp, TimeDomain.WALL_TIME, hold)
        self._wall_set = True

    def clear_wall_timer(self, tag: str) -> None:
        """Take a timer on wall time away."""
        self.context.delete_timer(tag, TimeDomain.WALL_TIME)
        self._wall_cleared = True

    def wall_timer_fired(self) -> None:
        """A timer on wall time is set no more."""
        self._wall_cleared = True

    def finish(self, has_wall_timers: bool) -> None:
        """The bundle is over: write what changed, or take everything away if the window has closed.

        Args:
            has_wall_timers: Whether the step may have set timers on wall time.
        """
        # They point back here: without this, only the garbage collector would find them.
        self.arguments, self._timers = None, {}
        states, self.states = self.states, {}
        if self.closed:
            return
        if self.frame.closes <= self.context.watermark:
            self.close(has_wall_timers)
            return
        for state in states.values():
            state.store()
        if self.written or (self._wall_set and self._wall_timers()):
            self._see_to_closing()
        elif self.erased or self._moved or self._wall_set or self._wall_cleared:
            if not self._is_empty():
                self._see_to_closing()
            elif self.context.timer(self.place.closing) is not None:
                self.context.delete_timer(self.place.closing)

    def _see_to_closing(self) -> None:
        """Have something left to fire when the window closes: a timer of the user's own that waits for it will do."""
        context, closing, closes = self.context, self.place.closing, self.frame.closes
        if self._cover is not None and (not self._moved or context.timer(self._cover) == closes):
            return
        if context.timer(closing) is None:
            context.set_timer(closing, closes)

    def close(self, has_wall_timers: bool) -> None:
        """Take away what the window has: state, and timers that will not fire any more."""
        self.erase_all()
        if has_wall_timers:
            for tag in self._wall_timers():
                self.context.delete_timer(tag, TimeDomain.WALL_TIME)
        self.closed = True

    def _is_empty(self) -> bool:
        return next(self.scan(), None) is None and not self._wall_timers()

    def _wall_timers(self) -> list[str]:
        return [tag for tag, _ in self.context.timers(TimeDomain.WALL_TIME) if tag.startswith(self.place.timers)]
