"""Where the time of an epoch goes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Laps:
    """Seconds of what follows one another, by name.

    >>> laps = Laps()
    >>> laps.end("tasks")
    >>> list(laps.seconds)
    ['tasks']
    """

    began: float = field(default_factory=time.perf_counter)
    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = 0.0

    def __post_init__(self) -> None:
        self._last = self.began

    def end(self, name: str) -> None:
        """What ran since the end before is of this name."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now

    def total(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.began
