"""What: base class of vectorized groupings: the CombineFn, its reducers, and the signature of stored state."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import IntervalComputation
from headrace.sdk.combinefns.combine_fn import Combiner, combiner_signature
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.windows.windowing import windowing_signature


@named("ColumnCombining")
class ColumnCombining(IntervalComputation):
    """Combines the values of all keys of an interval at once; subclasses implement the assignment of windows.

    Args:
        config: Configuration of the grouping.
        combine: A CombineFn for which `reducers_of` gives reducers.
        reducers: The reducers of `combine`.
        output_stream: Stream to which panes are sent, in the form FIRED.
    """

    def __init__(self, config: GroupingConfig, combine: Combiner, reducers: Reducers, output_stream: str) -> None:
        self._config, self._combine, self._reducers = config, combine, reducers
        self._output_stream = output_stream

    def setup(self) -> None:
        """Set the CombineFn up."""
        self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether `teardown` of the CombineFn does anything."""
        return self._combine.has_teardown()

    def state_signature(self) -> Mapping[str, str]:
        """The signature of a `Grouping`, because each of the two can read the state that the other has stored."""
        contents = {"contents": self._config.contents.kind}
        return {**windowing_signature(self._config.windowing), **combiner_signature(self._combine), **contents}
