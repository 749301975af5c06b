"""How long a splittable DoFn may process an element before the rest is left for the next epoch.

An epoch is committed as a whole, so one that takes long delays everything else; results of a long element would come
late, and be lost with the process. Bounded elements have the same allowance as unbounded ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_CLAIMS = 100_000
"""Number of claims, or of outputs, after which an element has a checkpoint: what a process does in about a second, so
that outputs in memory stay some tens of megabytes."""
BUNDLE_SECONDS = 1.0
"""Time after which elements of a bundle have checkpoints: an epoch that is ten times as long as its commit takes."""
SLICE_SECONDS = 0.01
"""Time that each element has in any case, so that short ones are done at once also at the end of a bundle."""


class Allowance:
    """Measures claims, outputs and time of one element after the other.

    Args:
        clock: The time in seconds, from any point on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.outputs = 0
        """Number of outputs of the element."""
        self._claims = 0
        self._bundle_until = self._until = 0.0

    def start_bundle(self) -> None:
        """Begin a bundle."""
        self._bundle_until = self._clock() + BUNDLE_SECONDS

    def start_element(self) -> None:
        """Begin an element."""
        self.outputs = self._claims = 0
        self._until = max(self._bundle_until, self._clock() + SLICE_SECONDS)

    def is_spent(self) -> bool:
        """Count a claim; whether it should be left for the next epoch."""
        self._claims += 1
        return self._claims >= MOST_CLAIMS or self.outputs >= MOST_CLAIMS or self._clock() >= self._until
