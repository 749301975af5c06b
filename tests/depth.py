"""How many seeds a test tries: a few as a rule, many in a long run (`./dev soak`, `./dev faults`)."""

from __future__ import annotations

import os
from collections.abc import Sequence


def soaking() -> bool:
    """Whether this is a long run."""
    return bool(os.environ.get("HEADRACE_SOAK"))


def examples(quick: int, soak: int) -> int:
    """The number of seeds or examples to try."""
    return soak if soaking() else quick


def faults(quick: int, full: int) -> int:
    """How many faults a test of the fault suite tries: `full` with HEADRACE_FAULTS=full, or a multiple of `quick`.

    >>> faults(quick=3, full=100) in (3, 100) or "HEADRACE_FAULTS" in os.environ
    True
    """
    asked = os.environ.get("HEADRACE_FAULTS") or "1"
    return full if asked == "full" else max(1, min(full, round(quick * float(asked))))


def seeds(quick: int, full: int, block: int = 0, blocks: int = 1) -> Sequence[int]:
    """The seeds to try, from 0, always the same; only the one in HEADRACE_SEED if that is set, to repeat a failure.

    `block` of `blocks` gives a part of them, for tests that run side by side.
    """
    if (only := os.environ.get("HEADRACE_SEED")) is not None:
        return [seed for seed in [int(only)] if seed % blocks == block]
    return range(block, faults(quick, full), blocks)
