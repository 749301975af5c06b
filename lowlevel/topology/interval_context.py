"""The context of an interval computation: committed state, this bundle's changes, clocks, productions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.lowlevel.coders.coder import KeyCoder
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.state.state_store import Delta, Mark, StateStore


class IntervalContext(Protocol):
    """State, clocks and productions of one interval, for an `IntervalComputation`; times are microseconds UTC."""

    hold: Mark | None
    """The oldest hold after the bundle, None if there is none; the computation sets it."""
    holder: bytes
    """Encoded key of that hold; the computation sets it."""
    next_wall_timer: int | None
    """Wall time of an epoch that runs even without records, None if none is needed; the computation sets it."""

    @property
    def name(self) -> str:
        """Name of the computation."""

    @property
    def outputs(self) -> frozenset[str]:
        """Streams that the computation declares."""

    @property
    def formats(self) -> Mapping[str, type]:
        """Output stream -> type of its records; streams that are not named take any value."""

    @property
    def aside(self) -> frozenset[str]:
        """Input streams that the low watermark does not wait for."""

    @property
    def key_coder(self) -> KeyCoder:
        """How keys become bytes."""

    @property
    def watermark_before(self) -> int:
        """Input low watermark of the previous epoch, at which records are processed."""

    @property
    def watermark(self) -> int:
        """Input low watermark of this epoch, at which timers fire."""

    @property
    def wall_time(self) -> int:
        """The epoch's reading of the wall clock."""

    @property
    def epoch(self) -> int:
        """Number of the epoch."""

    @property
    def interval(self) -> int:
        """Number of the key interval."""

    @property
    def store(self) -> StateStore:
        """Committed state of the interval."""

    @property
    def delta(self) -> Delta:
        """Changes of the bundle, not committed yet."""

    def emit(self, stream: str, batch: Batch) -> None:
        """Send a batch to a stream."""

    def put(self, name: bytes, segment: bytes) -> None:
        """Write a segment; replaces one of the same name."""

    def drop(self, name: bytes) -> None:
        """Delete a segment."""

    def count(self, counter: str, n: int = 1) -> None:
        """See `Context.count`."""

    def fresh(self, stream: str, ids: Sequence[bytes], timestamps: Sequence[int]) -> list[int]:
        """Indices of the records that were not processed before; journals their ids and counts duplicates."""

    def failed(self, error: Exception, encoded_key: bytes) -> StepError:
        """The error to raise after a failure for one key; it names the step and the key."""
