"""When: timers of user code: their clocks, their declaration, and the timer of one key and window (Beam's `Timer`).

The sources are `apache_beam.transforms.timeutil`, `apache_beam.transforms.userstate` and MillWheel paper §4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeVar

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import MAX_TIMESTAMP, Duration, DurationTypes, Timestamp, TimestampTypes
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.timer import TimeDomain as Clock
from headrace.sdk.userstate.state_spec import checked_name
from headrace.sdk.windows.window_namespace import WindowNamespace, user_timer_suffix

MethodT = TypeVar("MethodT", bound=Callable[..., object])
_CALLED_BY = "_headrace_timer_specs"


@stored_as("DoFnTimeDomain")
class TimeDomain(StrEnum):
    """The clock that a timer waits for, under Beam's names.

    >>> TimeDomain.from_string("WATERMARK"), TimeDomain.is_event_time(TimeDomain.REAL_TIME)
    (<TimeDomain.WATERMARK: 'WATERMARK'>, False)
    """

    WATERMARK = "WATERMARK"
    """Event time: the step's input watermark."""
    REAL_TIME = "REAL_TIME"
    """Processing time: the wall clock."""

    @staticmethod
    def from_string(domain: str) -> TimeDomain:
        """The domain with a name. Raises `ValueError` for an unknown name."""
        try:
            return TimeDomain(domain)
        except ValueError:
            names = ", ".join(TimeDomain)
            raise ValueError(f"unknown time domain {domain!r:.80}; use TimeDomain.{names}") from None

    @staticmethod
    def is_event_time(domain: str) -> bool:
        """Whether the domain is event time. Raises `ValueError` for an unknown name."""
        return TimeDomain.from_string(domain) is TimeDomain.WATERMARK

    @property
    def clock(self) -> Clock:
        """The corresponding clock of the low level."""
        return Clock.LOW_WATERMARK if self is TimeDomain.WATERMARK else Clock.WALL_TIME


class TimerSpec:
    """Declares a timer of each key and window; dynamic tags allow several timers of one declaration.

    Args:
        name: Name of the timer, unique within the `DoFn`; after a restart, set timers are found by their name.
        time_domain: The clock that the timer waits for: `TimeDomain.WATERMARK` or `TimeDomain.REAL_TIME`.

    Raises:
        ValueError: There is no such time domain, or the name is empty or too long.

    >>> TimerSpec("flush", TimeDomain.WATERMARK)
    TimerSpec('flush', WATERMARK)
    """

    def __init__(self, name: str, time_domain: str) -> None:
        self.name = checked_name("TimerSpec", name)
        self.time_domain = TimeDomain.from_string(time_domain)
        self.tag = user_timer_suffix(name)
        """Suffix of the tags of these timers, after the tag of the window."""

    def aspect(self) -> tuple[str, str]:
        """Name and time domain of the timer, which a restarted program must not change."""
        return f"timer {self.name!r}", str(self.time_domain)

    def __repr__(self) -> str:
        return f"TimerSpec({self.name!r}, {self.time_domain})"


def on_timer(timer_spec: TimerSpec) -> Callable[[MethodT], MethodT]:
    """Decorate a method of the `DoFn` that the timer calls when it fires; a method may be decorated for several timers.

    The method returns outputs as `process` does. The defaults of its parameters are `DoFn.StateParam`,
    `DoFn.TimerParam`, `KeyParam`, `WindowParam`, `TimestampParam` or `DynamicTimerTagParam`.

    Raises ValueError if `timer_spec` is not a `TimerSpec`, or if the decorated object is not callable.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import TimeDomain, TimerSpec, on_timer
    >>> class Remind(beam.DoFn):
    ...     DUE = TimerSpec("due", TimeDomain.WATERMARK)
    ...
    ...     def process(self, pair, due=beam.DoFn.TimerParam(DUE)):
    ...         due.set(60)
    ...
    ...     @on_timer(DUE)
    ...     def tell(self, key=beam.DoFn.KeyParam, timestamp=beam.DoFn.TimestampParam):
    ...         yield key, timestamp.seconds()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3)]) | beam.ParDo(Remind()) | beam.Map(print)
    ('tea', 60)
    """
    if not isinstance(timer_spec, TimerSpec):
        raise ValueError(f"@on_timer takes a TimerSpec, got {timer_spec!r:.200}; write @on_timer(THE_SPEC)")

    def decorate(method: MethodT) -> MethodT:
        if not callable(method):
            raise ValueError(f"@on_timer({timer_spec!r}) decorates a method, got {method!r:.200}")
        setattr(method, _CALLED_BY, tuple(dict.fromkeys((*callers_of(method), timer_spec))))
        return method

    return decorate


def callers_of(method: object) -> tuple[TimerSpec, ...]:
    """The timers for which `on_timer` decorates a method."""
    return getattr(method, _CALLED_BY, ())


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
