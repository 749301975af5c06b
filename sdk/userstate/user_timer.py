"""When: a timer of one key and window, as a `DoFn` sets it (MillWheel paper §4.6; Beam's `Timer`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lowlevel.time import Duration, DurationTypes, Timestamp, TimestampTypes
from headrace.sdk.stateful.timerspec import TimerSpec
from headrace.sdk.timedomain import TimeDomain

if TYPE_CHECKING:
    from headrace.sdk.stateful.keywindow import KeyWindow


class UserTimer:
    """Sets and clears the timer; in a callback, also that which has just fired."""

    __slots__ = ("_plain", "_prefix", "_set_at", "_spec", "_window")

    def __init__(self, spec: TimerSpec, window: KeyWindow) -> None:
        self._spec = spec
        self._window = window
        self._prefix = f"{window.place.timers}{spec.tag}"
        self._plain = spec.time_domain is not TimeDomain.REAL_TIME
        self._set_at: int | None = None
        """Where it is set to by this bundle, without a tag or output timestamp; None if that is not known."""

    def set(
        self, timestamp: TimestampTypes, dynamic_timer_tag: str = "", output_timestamp: TimestampTypes | None = None
    ) -> None:
        """Fire once the timer's clock reaches an instant; replaces what was set under the same tag.

        What the callback puts out has the output timestamp, and until the timer fires the output watermark does not
        pass it. For a timer on the watermark that is the instant itself unless another is given, for one on real time
        the timestamp of the current element (or the output timestamp of the current timer).

        Args:
            timestamp: Seconds since 1970 UTC, or a `Timestamp`.
            dynamic_timer_tag: Tells timers of one spec apart.
            output_timestamp: As `timestamp`.

        Raises:
            ValueError: On the watermark, the instant is after the window closes, so that the timer would never fire;
                or the output timestamp is before the current element's or after the window closes.
        """
        micros = timestamp.micros if type(timestamp) is Timestamp else Timestamp.of(timestamp).micros
        window, tag = self._window, self._prefix
        if dynamic_timer_tag != "":
            tag = self._tag(dynamic_timer_tag)
        elif output_timestamp is None and self._plain:
            # Nearly every element sets it where the one before has.
            if micros == self._set_at:
                return
            if micros <= window.frame.closes:
                self._set_at = micros
                window.set_timer(tag, micros)
                return
        self._set_at = None
        self._set_with_care(tag, micros, output_timestamp)

    def _set_with_care(self, tag: str, micros: int, output_timestamp: TimestampTypes | None) -> None:
        """Set what is not just a timer on the watermark, or cannot be set."""
        window = self._window
        if self._spec.time_domain is TimeDomain.REAL_TIME:
            hold = window.at if output_timestamp is None else self._output(output_timestamp)
            window.set_wall_timer(tag, micros, hold)
            return
        if micros > window.frame.closes:
            raise ValueError(
                f"timer {self._spec.name!r} is set to {_instant(micros)}, after window {window.frame.window} closes at "
                f"{_instant(window.frame.closes)} (its end and the allowed lateness); set it to that at most"
            )
        at = micros if output_timestamp is None else self._output(output_timestamp)
        window.set_timer(tag, micros, None if at == micros else at)

    def set_relative(
        self, offset: DurationTypes, dynamic_timer_tag: str = "", output_timestamp: TimestampTypes | None = None
    ) -> None:
        """Set it to so long after now, as `set` does: Beam's `offset(...).setRelative()` for Java.

        On real time, now is the clock that the runner goes by. On the watermark it is the timestamp of the current
        element (or the output timestamp of the current timer), and the timer is set to the closing of the window at
        most.

        Args:
            offset: Seconds, or a `Duration`.
            dynamic_timer_tag: As for `set`.
            output_timestamp: As for `set`.
        """
        window, micros = self._window, Duration.of(offset).micros
        if self._spec.time_domain is TimeDomain.REAL_TIME:
            at = window.context.wall_time + micros
        else:
            at = min(window.at + micros, window.frame.closes)
        self.set(Timestamp(micros=at), dynamic_timer_tag, output_timestamp)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take the timer of a tag back; nothing happens if it is not set."""
        tag = self._tag(dynamic_timer_tag)
        self._set_at = None
        if self._spec.time_domain is TimeDomain.REAL_TIME:
            self._window.clear_wall_timer(tag)
        else:
            self._window.clear_timer(tag)

    def forget(self) -> None:
        """It has fired, or what it was set to is not known any more."""
        self._set_at = None

    def _tag(self, dynamic: str) -> str:
        if not isinstance(dynamic, str):
            raise TypeError(f"the dynamic tag of timer {self._spec.name!r} must be a str, got {dynamic!r:.80}")
        return self._prefix + dynamic

    def _output(self, timestamp: TimestampTypes) -> int:
        micros, window = Timestamp.of(timestamp).micros, self._window
        if not window.at <= micros <= window.frame.closes:
            raise ValueError(
                f"timer {self._spec.name!r} is given the output timestamp {_instant(micros)}; it must not be before "
                f"the current element or timer ({_instant(window.at)}), nor after window {window.frame.window} closes "
                f"({_instant(window.frame.closes)})"
            )
        return micros


def _instant(micros: int) -> str:
    return repr(Timestamp(micros=micros))
