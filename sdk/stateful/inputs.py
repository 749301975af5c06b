"""Where: what a collection must be like for a stateful step, checked when the pipeline is built."""

from __future__ import annotations

from typing import get_args, get_origin

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.pvalue import PCollection

_NEVER_PAIRS = (str, bytes, int, float, bool, list, dict, set, frozenset, type(None))


def check_stateful_input(inputs: PCollection[object], step: str) -> None:
    """Refuse windows that merge, and elements that are known to be no pairs (key, value).

    Raises:
        TopologyError: The message names the step.
    """
    window_fn = inputs.windowing.window_fn
    if window_fn.is_merging():
        raise TopologyError(
            f"step {step!r} keeps state for each key and window, but its input is in {window_fn}, whose windows merge; "
            "put it into windows that do not, such as FixedWindows, or into the global window with WindowInto"
        )
    if never_pairs(inputs.element_type):
        raise TopologyError(
            f"step {step!r} keeps state for each key, but the elements of its input are of type "
            f"{inputs.element_type!r}, not pairs (key, value); make pairs of them with Map first"
        )


def never_pairs(hint: object) -> bool:
    """Whether a type hint says that elements are no pairs.

    >>> never_pairs(tuple[str, int]), never_pairs(None), never_pairs(int), never_pairs(tuple[int, int, int])
    (False, False, True, True)
    """
    origin = get_origin(hint)
    if origin is tuple:
        return len(get_args(hint)) != 2
    kind = origin or hint
    return isinstance(kind, type) and issubclass(kind, _NEVER_PAIRS)
