"""Dead letters: records that user code raises for, set aside with the error instead of stopping the run."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.stored_names import stored_as

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
