"""What: how a step says what its stored state means, in words that stay the same from program to program.

Parameters that leave stored windows and accumulators readable are left out: the length of fixed windows, the count of
a trigger. Lambdas have no name that would last.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.sdk.transforms.combinefn import CallableCombineFn, CombineFn, CurriedCombineFn
from headrace.sdk.triggers import Trigger
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import WindowFn


def windowing_signature(windowing: Windowing) -> dict[str, str]:
    """Aspects of a grouping's windows.

    >>> windowing_signature(Windowing())["windows"]
    'GlobalWindows'
    """
    return {
        "windows": window_kind(windowing.window_fn),
        "trigger": trigger_kind(windowing.trigger),
        "accumulation mode": windowing.accumulation_mode.name,
        "timestamp combiner": windowing.timestamp_combiner.name,
        "allowed lateness": str(windowing.allowed_lateness),
    }


def window_kind(window_fn: WindowFn) -> str:
    """What kind of windows a function makes."""
    return type(window_fn).__qualname__


def trigger_kind(trigger: Trigger) -> str:
    """The shape of a trigger, which is that of its progress.

    >>> from headrace.sdk.triggers import AfterCount, AfterWatermark, Repeatedly
    >>> trigger_kind(Repeatedly(AfterCount(5)))
    'Repeatedly(AfterCount)'
    >>> trigger_kind(AfterWatermark(late=AfterCount(1)))
    'AfterWatermark(late Repeatedly(AfterCount))'
    """
    named = ((name, getattr(trigger, name)) for name in getattr(trigger, "__dataclass_fields__", ()))
    parts = [part for name, value in named for part in _parts(name, value)]
    return type(trigger).__qualname__ + (f"({', '.join(parts)})" if parts else "")


def _parts(name: str, value: object) -> Iterable[str]:
    if isinstance(value, Trigger):
        # Where there may be one of two, the name tells which.
        yield trigger_kind(value) if name == "underlying" else f"{name} {trigger_kind(value)}"
    elif isinstance(value, tuple):
        yield from (trigger_kind(part) for part in value if isinstance(part, Trigger))


def combiner_kind(combine: object) -> str:
    """What makes accumulators, and with it what they are.

    >>> combiner_kind(CallableCombineFn(sum)), combiner_kind(CallableCombineFn(lambda values: 0))
    ('sum', 'a lambda')
    """
    if combine is None:
        return "none"
    if isinstance(combine, CurriedCombineFn):
        return combiner_kind(combine.inner)
    if isinstance(combine, CallableCombineFn):
        name = str(getattr(combine.function, "__qualname__", type(combine.function).__qualname__))
        return "a lambda" if "<lambda>" in name else name
    inner = [combiner_kind(part) for value in getattr(combine, "__dict__", {}).values() for part in _combiners(value)]
    return type(combine).__qualname__ + (f"({', '.join(inner)})" if inner else "")


def _combiners(value: object) -> Iterable[object]:
    found = value if isinstance(value, (list, tuple)) else [value]
    return (part for part in found if isinstance(part, CombineFn))
