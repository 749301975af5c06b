"""What: descriptions of windowing parameters on which stored state depends, stable from program to program.

Parameters that do not affect how stored windows and accumulators are read are left out: the length of fixed windows,
the count of a trigger. Lambdas are left out because they have no stable name.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.lowlevel.stored_names import instance_name, public_name
from headrace.sdk.triggers import Trigger
from headrace.sdk.windows import WindowFn
from headrace.sdk.windows.windowing import Windowing


def windowing_signature(windowing: Windowing) -> dict[str, str]:
    """Descriptions of a grouping's windowing, by aspect.

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
    """The public name of a window function's class, with that of the function that it adapts from another SDK."""
    return instance_name(window_fn)


def trigger_kind(trigger: Trigger) -> str:
    """The structure of a trigger, which is also the structure of its progress.

    >>> from headrace.sdk.triggers import AfterCount, AfterWatermark, Repeatedly
    >>> trigger_kind(Repeatedly(AfterCount(5)))
    'Repeatedly(AfterCount)'
    >>> trigger_kind(AfterWatermark(late=AfterCount(1)))
    'AfterWatermark(late Repeatedly(AfterCount))'
    """
    named = ((name, getattr(trigger, name)) for name in getattr(trigger, "__dataclass_fields__", ()))
    parts = [part for name, value in named for part in _parts(name, value)]
    return public_name(type(trigger)) + (f"({', '.join(parts)})" if parts else "")


def _parts(name: str, value: object) -> Iterable[str]:
    if isinstance(value, Trigger):
        # The name of the field distinguishes optional triggers, such as `early` and `late`.
        yield trigger_kind(value) if name == "underlying" else f"{name} {trigger_kind(value)}"
    elif isinstance(value, tuple):
        yield from (trigger_kind(part) for part in value if isinstance(part, Trigger))
