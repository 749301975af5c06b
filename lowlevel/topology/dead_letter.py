"""Poison: records that user code fails for, set aside with the error instead of stopping the run."""

from __future__ import annotations

from typing import NamedTuple

DEAD_LETTERS = "dead_letters"
"""Counter of the records of a computation that were set aside."""


class DeadLetter(NamedTuple):
    """A record that a computation could not process, as the value of a record with the same timestamp."""

    step: str
    """The computation."""
    key: object
    """The record's key; None if the key extractor failed for it."""
    value: object
    error: str
    """The traceback, down to the user's code."""
