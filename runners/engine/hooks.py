"""The steps of the protocol, for tests that choose what happens at them."""

from __future__ import annotations

from typing import Protocol


class Steps(Protocol):
    """The seam through which tests choose the size of epochs and stop a driver at any step of the protocol."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        """How many records an injector may contribute to this epoch; at most `limit`."""

    def step(self, name: str, epoch: int) -> None:
        """Called before and after each step of the protocol."""


class EveryStep:
    """Goes through."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        """As large as may be."""
        return limit

    def step(self, name: str, epoch: int) -> None:
        """Go on."""
