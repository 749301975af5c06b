"""Interval computations: all keys of an interval at once, by columns; the guarantees are those of `Computation`.

The engine's own addition to the paper's model: work of the engine itself, such as a sum per key, takes a few passes
over columns for all keys of a bundle. State is in segments (`headrace.lowlevel.state.segment`): a bundle appends new
entries and reads the due ones.
"""

from __future__ import annotations

from headrace.lowlevel.records.block import Block
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import Computation
from headrace.lowlevel.topology.interval_context import IntervalContext


@named("IntervalComputation")
class IntervalComputation(Computation):
    """Takes all records of an interval and bundle in one call; reads the clocks itself instead of setting timers."""

    def process_interval(self, blocks: list[Block], context: IntervalContext) -> None:
        """Called in every epoch, also without records, as the watermark or the wall clock may have advanced.

        The list belongs to the computation, which may remove blocks to free their memory before the call ends.
        """
        raise TypeError(f"{type(self).__name__} does not define process_interval(blocks, context)")
