"""Hooks at the steps of the protocol, for tests."""

from __future__ import annotations

from typing import Protocol


class Hooks(Protocol):
    """Hooks by which tests choose the size of epochs and stop a driver at any step of the protocol."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        """Return how many records an injector may contribute to this epoch, at most `limit`."""

    def step(self, name: str, epoch: int) -> None:
        """Called before and after each step of the protocol."""


class EveryStep:
    """The hooks of a normal run, which change nothing."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        """Return the limit."""
        return limit

    def step(self, name: str, epoch: int) -> None:
        """Do nothing."""
