"""Which way a step goes through its elements: the quick one or the general one, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """How a step goes through its elements.

    >>> print(Way("Sum", "all keys at once", "key by key", None))
    step 'Sum' takes all keys at once
    """

    step: str
    quick: str
    general: str
    against: str | None
    """Why it goes the general way; None if it goes the quick one."""

    def __str__(self) -> str:
        takes = self.quick if self.against is None else f"{self.general}: {self.against}"
        return f"step {self.step!r} takes {takes}"
