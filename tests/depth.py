"""How many seeds a test tries: a few as a rule, many in a long run (`./dev soak`)."""

from __future__ import annotations

import os


def examples(quick: int, soak: int) -> int:
    """The number of seeds or examples to try."""
    return soak if "HEADRACE_SOAK" in os.environ else quick
