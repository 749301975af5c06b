"""How thorough randomized tests are: quick by default, deep with `HEADRACE_TESTS=deep` in the environment."""

from __future__ import annotations

import os


def examples(quick: int, deep: int) -> int:
    """The number of seeds or examples to try."""
    return deep if os.environ.get("HEADRACE_TESTS") == "deep" else quick
