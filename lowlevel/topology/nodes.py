"""Nodes of a topology: a computation with its name and streams, and its dead letters (MillWheel paper §4, figure 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headrace.lowlevel.coders.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.injectors.injector import Injector
from headrace.lowlevel.records.record import Batch, KeyExtractor
from headrace.lowlevel.sinks.sink import Sink
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.topology.computation import Computation, InlineComputation


@dataclass(frozen=True, slots=True)
class Keyed:
    """A keyed computation with its input streams, key extractors and output streams."""

    name: str
    computation: Computation
    inputs: Mapping[str, KeyExtractor]
    """Input stream -> key extractor."""
    outputs: frozenset[str]
    formats: Mapping[str, type] = field(default_factory=dict)
    """Output stream -> type of its records; streams that are not named take any value."""
    key_coder: KeyCoder = STANDARD_KEYS
    dead_letters: str | None = None
    """Stream for records that the computation raises for; None if such a record stops the run."""
    aside: frozenset[str] = frozenset()
    """Input streams that the low watermark does not wait for; their records are never late, and counted as `aside`."""
    watermark_percentile: float | None = None
    """Percentage of recent records that the input low watermark waits for; None for all."""
    key_encoding: str | None = None
    """Name of the coder with which keys of another SDK are encoded; None if keys are as the program has them."""

    at_end: Callable[[Batch], Batch] | None = None
    """What becomes of its productions in bundles in which its low watermark is at the end of time."""

    @property
    def step(self) -> str:
        """The step that metrics and errors of the computation name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Inline:
    """An inline computation with its input and output streams."""

    name: str
    computation: InlineComputation
    inputs: frozenset[str]
    outputs: frozenset[str]
    step: str
    """The step that metrics and errors of the computation name."""


class Wiring(Protocol):
    """The streams and nodes of a topology, for checks that `Topology` itself calls."""

    @property
    def injectors(self) -> Mapping[str, Injector]:
        """Stream -> the injector that feeds it."""

    @property
    def keyed(self) -> Mapping[str, Keyed]:
        """Keyed computations by name."""

    @property
    def inlines(self) -> Mapping[str, Inline]:
        """Inline computations by name."""

    @property
    def sinks(self) -> Mapping[str, tuple[str, Sink]]:
        """Sink name -> (stream, sink)."""

    def inline_order(self) -> list[str]:
        """See `Topology.inline_order`."""

    def carried(self, stream: str) -> set[str]:
        """See `Topology.carried`."""


DEAD_LETTERS = "dead_letters"
"""Counter of a computation's dead letters."""


@stored_as("DeadLetter")
class DeadLetter(NamedTuple):
    """A record that a computation could not process; travels as the value of a record with the same timestamp.

    >>> from headrace.lowlevel import BoundedInjector, CallSink, Computation, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> class Parse(Computation):
    ...     def process_record(self, record, context):
    ...         context.produce("numbers", int(record.value))
    >>> topology = Topology()
    >>> topology.injector("texts", BoundedInjector([("7", 1), ("seven", 2)]))
    >>> topology.computation("parse", Parse(), {"texts": len}, ["numbers"], dead_letters="bad")
    >>> topology.sink("bad", "bad", CallSink(lambda epoch, rows: print([(each.key, each.value) for each, _ in rows])))
    >>> result = LocalRunner().run_topology(topology)
    [(5, 'seven')]
    """

    step: str
    """Name of the computation."""
    key: object
    """The record's key; None if the key extractor failed for it."""
    value: object
    error: str
    """The traceback, from the user's code on."""
