"""When: the declaration of a timer and of its callback (`apache_beam.transforms.userstate.TimerSpec`, `on_timer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.sdk.model.time_domain import TimeDomain
from headrace.sdk.userstate.state_spec import checked_name
from headrace.sdk.windows.window_namespace import user_timer_suffix

MethodT = TypeVar("MethodT", bound=Callable[..., object])
_CALLED_BY = "_headrace_timer_specs"


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
