"""The functions that a generated loop gets from the fused stage: a protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.sdk.model.element_form import ElementForm


class LoopCallbacks(Protocol):
    """Makes the functions that a generated loop calls for elements which it does not handle itself."""

    def divert(self, number: int, form: ElementForm) -> Callable[..., None]:
        """For results of step `number` with a tag, timestamp or windows of their own.

        The function takes (result, timestamp, windows, pane) with timestamp, windows and pane of the input.
        """

    def later(self, node: int, form: ElementForm) -> Callable[..., None]:
        """For elements of a collection that a later loop takes; the function takes (value in its form, timestamp)."""

    def all_later(self, node: int, form: ElementForm) -> Callable[..., None]:
        """As `later`, for many elements; the function takes (values in their form, timestamps), equally long lists."""

    def refuse(self, number: int) -> Callable[[object], None]:
        """For a result of step `number` that is not an iterable of outputs; the function raises TypeError."""
