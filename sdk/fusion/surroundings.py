"""What a fused stage does for its loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.sdk.fusion.plan import Form


class Surroundings(Protocol):
    """What a loop calls for what it does not do itself."""

    def divert(self, number: int, form: Form) -> Callable[..., None]:
        """For results of a step that are more than a value: takes (result, timestamp, windows, pane)."""

    def later(self, node: int, form: Form) -> Callable[..., None]:
        """For elements of a collection that get a loop of their own: takes (value in its form, timestamp)."""

    def all_later(self, node: int, form: Form) -> Callable[..., None]:
        """For many of them: takes (values in their form, timestamps)."""

    def refuse(self, number: int) -> Callable[[object], None]:
        """For a result that is no iterable of outputs; raises."""
