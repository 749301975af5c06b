"""What: what groupings by columns have in common: the CombineFn, its reducers, and what their state means."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lowlevel.intervalcomputation import IntervalComputation
from headrace.sdk.columns.reducers import Reducers
from headrace.sdk.contents import Combiner
from headrace.sdk.rules import Rules
from headrace.sdk.statesignature import combiner_kind, windowing_signature


class ColumnCombining(IntervalComputation):
    """Combines all keys of an interval at once; how windows come about, a subclass says.

    Args:
        rules: What the windowing means.
        combine: A CombineFn that reducers stand for.
        reducers: These.
        output_stream: Where the panes go, in the form FIRED.
    """

    def __init__(self, rules: Rules, combine: Combiner, reducers: Reducers, output_stream: str) -> None:
        self._rules, self._combine, self._reducers = rules, combine, reducers
        self._output_stream = output_stream

    def setup(self) -> None:
        """Set the CombineFn up."""
        self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether the CombineFn's does anything."""
        return self._combine.has_teardown()

    def state_signature(self) -> Mapping[str, str]:
        """That of a `Grouping`: each takes over what the other has stored."""
        own = {"combiner": combiner_kind(self._combine), "contents": self._rules.contents.kind}
        return {**windowing_signature(self._rules.windowing), **own}
