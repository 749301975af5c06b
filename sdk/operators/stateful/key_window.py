"""What: state and timers of one key and window of a stateful step during a bundle, and their removal at its closing."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.timer import TimeDomain
from headrace.sdk.userstate.state_spec import Cells, State, prefix_of
from headrace.sdk.userstate.timers import TimerSpec, UserTimer
from headrace.sdk.windows.window_namespace import WindowNamespace, closing_tag, user_timer_prefix


class WindowNames(NamedTuple):
    """A window with the names of its state and timers, which are the same for all keys."""

    namespace: WindowNamespace
    cells: bytes
    """Prefix of the names of the window's cells."""
    timers: str
    """Prefix of the tags of the window's user timers."""
    closing: str
    """Tag of the timer that waits for the closing of the window."""

    @classmethod
    def of(cls, namespace: WindowNamespace) -> WindowNames:
        """The names for a window's namespace."""
        return cls(namespace, prefix_of(namespace.code), user_timer_prefix(namespace.tag), closing_tag(namespace.tag))


class KeyWindow(Cells):
    """State and timers of one key and window. Cells are read on demand and written at the end of the bundle."""

    __slots__ = (
        "_cover",
        "_moved",
        "_timers",
        "_wall_cleared",
        "_wall_set",
        "arguments",
        "at",
        "closed",
        "fires_rest",
        "namespace",
        "place",
        "sides",
        "states",
    )

    def __init__(self, place: WindowNames, context: Context, fires_rest: bool) -> None:
        # The body of `Cells.__init__`, inlined to save a call for each key and window.
        self.context, self.prefix, self.written, self.erased = context, place.cells, False, False
        self.place = place
        self.fires_rest = fires_rest
        """Whether wall-time timers that wait when the window closes fire then."""
        self.namespace = place.namespace
        self.at = MIN_TIMESTAMP
        """Timestamp of the current element, or output timestamp of the current timer; microseconds UTC."""
        self.closed = False
        """Whether state and timers of the window were deleted."""
        self.sides: tuple[object, ...] = ()
        """Side values of the current element."""
        self.arguments: tuple[list[object], dict[str, object]] | None = None
        """Arguments of `process` for this window, created at its first call."""
        self.states: dict[str, State] = {}
        """States that were opened in this bundle, by name."""
        self._timers: dict[str, UserTimer] = {}
        self._cover: str | None = None
        """Tag of a user timer that was set to the closing of the window."""
        self._moved = False
        """Whether watermark timers were set to other times, or deleted."""
        self._wall_set = False
        self._wall_cleared = False

    def timer(self, spec: TimerSpec) -> UserTimer:
        """The timer of a declaration."""
        found = self._timers.get(spec.name)
        if found is None:
            found = self._timers[spec.name] = UserTimer(spec, self.place.timers + spec.tag, self)
        return found

    def set_timer(self, tag: str, timestamp: int, hold: int | None = None) -> None:
        """Set a watermark timer, whose time is not after the closing of the window."""
        self.context.set_timer(tag, timestamp, hold=hold)
        if timestamp == self.namespace.closes:
            self._cover = tag
        else:
            self._moved = True

    def clear_timer(self, tag: str) -> None:
        """Delete a watermark timer."""
        self.context.delete_timer(tag)
        self._moved = True

    def timer_fired(self, name: str) -> None:
        """Record that a watermark timer of the declaration with this name has fired."""
        if (timer := self._timers.get(name)) is not None:
            timer.forget()

    def set_wall_timer(self, tag: str, timestamp: int, hold: int) -> None:
        """Set a wall-time timer; `fire_rest` or `close` ends it if it has not fired when the window closes."""
        self.context.set_timer(tag, timestamp, TimeDomain.WALL_TIME, hold)
        self._wall_set = True
        if self.fires_rest:
            # Also in the bundle in which the window closes; a timer of the program's own at that time fires first.
            self.context.set_timer(self.place.closing, self.namespace.closes)

    def clear_wall_timer(self, tag: str) -> None:
        """Delete a wall-time timer."""
        self.context.delete_timer(tag, TimeDomain.WALL_TIME)
        self._wall_cleared = True

    def wall_timer_fired(self) -> None:
        """Record that a wall-time timer has fired."""
        self._wall_cleared = True

    def finish(self, has_wall_timers: bool) -> None:
        """End the bundle: write changes, or delete everything if the window has closed.

        Args:
            has_wall_timers: Whether the step may have set wall-time timers.
        """
        # Arguments and timers refer to this window: break the reference cycles.
        self.arguments, self._timers = None, {}
        states, self.states = self.states, {}
        if self.closed:
            return
        if is_closed(self.namespace.closes, self.context.watermark):
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
        """Make sure that a timer fires when the window closes; a user timer at that time is enough."""
        context, closing, closes = self.context, self.place.closing, self.namespace.closes
        if self._cover is not None and (not self._moved or context.timer(self._cover) == closes):
            return
        if context.timer(closing) is None:
            context.set_timer(closing, closes)

    def fire_rest(self) -> None:
        """Let the wall-time timers fire that wait when the window closes; the end of the bundle closes it."""
        for tag in self._wall_timers():
            self.context.fire_early(tag, TimeDomain.WALL_TIME)

    def close(self, has_wall_timers: bool) -> None:
        """Delete the state of the window, and its wall-time timers, which are counted."""
        self.erase_all()
        if has_wall_timers:
            tags = self._wall_timers()
            for tag in tags:
                self.context.delete_timer(tag, TimeDomain.WALL_TIME)
            if tags:
                self.context.count("dropped_timers", len(tags))
        self.closed = True

    def _is_empty(self) -> bool:
        return next(self.scan(), None) is None and not self._wall_timers()

    def _wall_timers(self) -> list[str]:
        return [tag for tag, _ in self.context.timers(TimeDomain.WALL_TIME) if tag.startswith(self.place.timers)]
