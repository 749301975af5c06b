"""What: counts of the elements that a step has taken as columns, and of those that it has taken one by one."""

from __future__ import annotations

from headrace.lowlevel.metric import ENGINE, TypedMetricName, report

_BY_COLUMN = TypedMetricName("counter", ENGINE, "by_column")
_ONE_BY_ONE = TypedMetricName("counter", ENGINE, "one_by_one")


class ColumnCounts:
    """Counts elements until they are reported as metrics of the step whose code runs."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what is not reported."""
        self._one_by_one = self._by_column = 0

    def add(self, count: int, by_column: bool) -> None:
        """Count elements that were taken as columns, or one by one."""
        if by_column:
            self._by_column += count
        else:
            self._one_by_one += count

    def report(self) -> None:
        """Report the counts, and begin again."""
        for metric, count in ((_BY_COLUMN, self._by_column), (_ONE_BY_ONE, self._one_by_one)):
            if count:
                report(metric, count)
        self.clear()
