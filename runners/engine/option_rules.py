"""Rules for the values of the options of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_Rule = tuple[Callable[[object], bool], str]
"""A function that returns whether a value is allowed, and a description of allowed values."""


def check_options(given: Mapping[str, object]) -> None:
    """Check the values of options by their names; None is always allowed, as the engine then chooses the value.

    Raises:
        ValueError: A value is not allowed; the message names the option, its value and the allowed values.

    >>> check_options({"intervals": 4, "poll_seconds": 0.1})
    """
    for name, value in given.items():
        if value is None or name not in _RULES:
            continue
        fits, remedy = _RULES[name]
        if not fits(value):
            raise ValueError(f"{_SPELLED.get(name, name)} is {value!r:.200}; give {remedy}")


_SPELLED = {"cache_bytes": "cache_bytes (--cache_mb)"}
"""Names in error messages of options whose names on the command line differ."""


def _number(value: object) -> float:
    """Return a number unchanged; for any other object, return minus infinity, which no rule allows."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _number(value) >= 1


def _is_span(value: object) -> bool:
    return _number(value) >= 0


_COUNT: _Rule = (_is_count, "a whole number of at least 1")
_SPAN: _Rule = (_is_span, "0 or more seconds")
_RULES: Mapping[str, _Rule] = {
    "checkpoint": (lambda value: isinstance(value, str) and value != "", "the directory or URL as text"),
    "intervals": _COUNT,
    "max_records_per_epoch": _COUNT,
    "latency_aim": (lambda value: _number(value) > 0, "seconds, more than 0, or None for no aim"),
    "skew_limit": _SPAN,
    "straggler_delay": _SPAN,
    "poll_seconds": _SPAN,
    "task_idle_seconds": _SPAN,
    "cache_bytes": (
        lambda value: isinstance(value, int) and _number(value) >= 0,
        "a number of bytes, or 0 to keep nothing",
    ),
}


def check_program(topology: object, options: object) -> None:
    """Check the types of the arguments of `run_topology`.

    Raises:
        TypeError: `topology` is not a topology, or `options` is neither None nor `RunOptions`.
    """
    if not hasattr(topology, "validate"):
        raise TypeError(f"run_topology takes a Topology, got {topology!r:.200}; a Pipeline runs with pipeline.run()")
    if options is not None and not hasattr(options, "max_records_per_epoch"):
        raise TypeError(f"run_topology takes RunOptions, got {options!r:.200}; write RunOptions(checkpoint=...), say")
