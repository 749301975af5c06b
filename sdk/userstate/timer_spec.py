"""When: the declaration of a timer and of what it calls (`apache_beam.transforms.userstate.TimerSpec`, `on_timer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.sdk.stateful.spec import checked_name
from headrace.sdk.timedomain import TimeDomain

MethodT = TypeVar("MethodT", bound=Callable[..., object])
_CALLED_BY = "_headrace_timer_specs"


class TimerSpec:
    """A timer of each key and window; under dynamic tags, any number of them.

    Args:
        name: Its name, one for each timer of a `DoFn`; timers that are set are found again under it after a restart.
        time_domain: The clock that it waits for.

    Raises:
        ValueError: There is no such time domain, or the name is empty or too long.

    >>> TimerSpec("flush", TimeDomain.WATERMARK)
    TimerSpec('flush', WATERMARK)
    """

    def __init__(self, name: str, time_domain: str) -> None:
        self.name = checked_name("TimerSpec", name)
        self.time_domain = TimeDomain.from_string(time_domain)
        self.tag = f"{len(name)}:{name}"
        """How the tags of its timers go on after the window's part of them."""

    def aspect(self) -> tuple[str, str]:
        """What gives meaning to it in storage: its name and its clock."""
        return f"timer {self.name!r}", str(self.time_domain)

    def __repr__(self) -> str:
        return f"TimerSpec({self.name!r}, {self.time_domain})"


def on_timer(timer_spec: TimerSpec) -> Callable[[MethodT], MethodT]:
    """Let a timer call a method of the `DoFn` when it fires: a decorator, one for each timer that calls the method.

    The method puts out what `process` may put out. Its parameters have `DoFn.StateParam`, `DoFn.TimerParam`,
    `KeyParam`, `WindowParam`, `TimestampParam` or `DynamicTimerTagParam` as defaults.
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
    """The timers that call a method, as `on_timer` says."""
    return getattr(method, _CALLED_BY, ())
