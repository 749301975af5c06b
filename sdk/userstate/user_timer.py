"""When: a timer of one key and window in user code (MillWheel paper §4.6; Beam's `Timer`)."""

from __future__ import annotations

from typing import Protocol

from headrace.lowlevel.time import MAX_TIMESTAMP, Duration, DurationTypes, Timestamp, TimestampTypes
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.model.time_domain import TimeDomain
from headrace.sdk.userstate.timer_spec import TimerSpec
from headrace.sdk.windows.window_namespace import WindowNamespace


class TimerWindow(Protocol):
    """The key and window of a timer, as far as the timer uses them."""

    @property
    def context(self) -> Context:
        """Storage and clocks of the key."""

    @property
    def namespace(self) -> WindowNamespace:
        """The window."""

    @property
    def at(self) -> int:
        """Timestamp of the current element, or output timestamp of the current timer; microseconds UTC."""

    def set_timer(self, tag: str, timestamp: int, hold: int | None = None) -> None:
        """Set a timer on the watermark; the output watermark is held at `hold`, or at the timer."""

    def clear_timer(self, tag: str) -> None:
        """Delete a timer on the watermark."""

    def set_wall_timer(self, tag: str, timestamp: int, hold: int) -> None:
        """Set a timer on wall time; the output watermark is held at `hold`."""

    def clear_wall_timer(self, tag: str) -> None:
        """Delete a timer on wall time."""


class UserTimer:
    """Sets and clears the timer of a declaration for one key and window.

    >>> import headrace as beam
    >>> from headrace.transforms.timeutil import TimeDomain
    >>> from headrace.transforms.userstate import TimerSpec, on_timer
    >>> class Reminder(beam.DoFn):
    ...     TIMER = TimerSpec("remind", TimeDomain.WATERMARK)
    ...     def process(self, pair, timer=beam.DoFn.TimerParam(TIMER)):
    ...         timer.set(pair[1] + 60)
    ...     @on_timer(TIMER)
    ...     def remind(self, key=beam.DoFn.KeyParam, timestamp=beam.DoFn.TimestampParam):
    ...         yield key, timestamp.seconds()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("red", 5)]) | beam.ParDo(Reminder()) | beam.Map(print)
    ('red', 65)

    Args:
        spec: The declaration.
        tag: Prefix of the timer's tag in storage; the dynamic tag follows.
        window: The key and window.
    """

    __slots__ = ("_plain", "_prefix", "_set_at", "_spec", "_window")

    def __init__(self, spec: TimerSpec, tag: str, window: TimerWindow) -> None:
        self._spec = spec
        self._prefix = tag
        self._window = window
        self._plain = spec.time_domain is not TimeDomain.REAL_TIME
        self._set_at: int | None = None
        """Time, microseconds UTC, to which this bundle has set the plain timer; None if unknown."""

    @property
    def least_output(self) -> int:
        """The least output timestamp with which the timer can be set now, microseconds UTC."""
        return self._window.at

    @property
    def latest(self) -> int:
        """The latest time to which the timer can be set, microseconds UTC."""
        return self._window.namespace.closes if self._plain else MAX_TIMESTAMP

    def set(
        self, timestamp: TimestampTypes, dynamic_timer_tag: str = "", output_timestamp: TimestampTypes | None = None
    ) -> None:
        """Set the timer to fire once its clock reaches `timestamp`; replaces the setting under the same dynamic tag.

        Outputs of the callback have the output timestamp, which the output watermark does not pass before the timer
        fires. The default of the output timestamp is `timestamp` for a watermark timer, and the timestamp of the
        current element (or the output timestamp of the current timer) for a real-time timer.

        Args:
            timestamp: Seconds since 1970 UTC, or a `Timestamp`.
            dynamic_timer_tag: Distinguishes timers of one declaration.
            output_timestamp: Seconds since 1970 UTC, or a `Timestamp`.

        Raises:
            ValueError: The time of a watermark timer is after the closing of the window, so that the timer would never
                fire; or the output timestamp is before that of the current element or after the closing of the window.
            TypeError: The dynamic tag is not a str.
        """
        micros = timestamp.micros if type(timestamp) is Timestamp else Timestamp.of(timestamp).micros
        window, tag = self._window, self._prefix
        if dynamic_timer_tag != "":
            tag = self._tag(dynamic_timer_tag)
        elif output_timestamp is None and self._plain:
            # Most elements set the timer to the time to which the previous element has set it.
            if micros == self._set_at:
                return
            if micros <= window.namespace.closes:
                self._set_at = micros
                window.set_timer(tag, micros)
                return
        self._set_at = None
        self._set_with_care(tag, micros, output_timestamp)

    def _set_with_care(self, tag: str, micros: int, output_timestamp: TimestampTypes | None) -> None:
        """Set a real-time timer, or a timer with an output timestamp; raise ValueError if the times are invalid."""
        window = self._window
        if self._spec.time_domain is TimeDomain.REAL_TIME:
            hold = window.at if output_timestamp is None else self._output(output_timestamp)
            window.set_wall_timer(tag, micros, hold)
            return
        if micros > window.namespace.closes:
            raise ValueError(
                f"timer {self._spec.name!r} is set to {_instant(micros)}, after window {window.namespace.window} "
                f"closes at {_instant(window.namespace.closes)} (its end and the allowed lateness); set it to that at "
                "most"
            )
        at = micros if output_timestamp is None else self._output(output_timestamp)
        window.set_timer(tag, micros, None if at == micros else at)

    def set_relative(
        self, offset: DurationTypes, dynamic_timer_tag: str = "", output_timestamp: TimestampTypes | None = None
    ) -> None:
        """Set the timer to `offset` after now, as `set` does (Beam Java's `offset(...).setRelative()`).

        For a real-time timer, now is the time of the runner's wall clock. For a watermark timer, now is the timestamp
        of the current element (or the output timestamp of the current timer), and the timer is set to the closing of
        the window at the latest.

        Args:
            offset: Seconds, or a `Duration`.
            dynamic_timer_tag: As for `set`.
            output_timestamp: As for `set`.
        """
        window, micros = self._window, Duration.of(offset).micros
        if self._spec.time_domain is TimeDomain.REAL_TIME:
            at = window.context.wall_time + micros
        else:
            at = min(window.at + micros, window.namespace.closes)
        self.set(Timestamp(micros=at), dynamic_timer_tag, output_timestamp)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Clear the timer of a dynamic tag; has no effect if the timer is not set."""
        tag = self._tag(dynamic_timer_tag)
        self._set_at = None
        if self._spec.time_domain is TimeDomain.REAL_TIME:
            self._window.clear_wall_timer(tag)
        else:
            self._window.clear_timer(tag)

    def forget(self) -> None:
        """Forget the current setting: the timer has fired, or was set elsewhere."""
        self._set_at = None

    def _tag(self, dynamic: str) -> str:
        if not isinstance(dynamic, str):
            raise TypeError(f"the dynamic tag of timer {self._spec.name!r} must be a str, got {dynamic!r:.80}")
        return self._prefix + dynamic

    def _output(self, timestamp: TimestampTypes) -> int:
        micros, window = Timestamp.of(timestamp).micros, self._window
        if not window.at <= micros <= window.namespace.closes:
            raise ValueError(
                f"timer {self._spec.name!r} is given the output timestamp {_instant(micros)}; it must not be before "
                f"the current element or timer ({_instant(window.at)}), nor after window {window.namespace.window} "
                f"closes ({_instant(window.namespace.closes)})"
            )
        return micros


def _instant(micros: int) -> str:
    return repr(Timestamp(micros=micros))
