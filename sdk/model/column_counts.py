"""What: counts of the elements that a step has taken as columns, and of those that it has taken one by one."""

from __future__ import annotations

from headrace.lowlevel.metric import ENGINE, TypedMetricName, report

_BY_COLUMN = TypedMetricName("counter", ENGINE, "by_column")
_ONE_BY_ONE = TypedMetricName("counter", ENGINE, "one_by_one")


def count_taken(by_column: int, one_by_one: int) -> None:
    """Report numbers of elements as metrics of the step whose code runs."""
    if by_column:
        report(_BY_COLUMN, by_column)
    if one_by_one:
        report(_ONE_BY_ONE, one_by_one)
