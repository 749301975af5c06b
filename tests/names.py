"""Names of parametrized tests: the same in every process that collects them."""

from __future__ import annotations

import re


def legible(value: object) -> str:
    """A value as its `repr`, without where in memory things are, and with what is in sets in order."""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return re.sub(r"\{([^{}:]*)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)
