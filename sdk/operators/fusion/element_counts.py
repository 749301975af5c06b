"""The engine's element counters of a fused stage: `records_in` and `records_out` of each step."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.metric import ENGINE, TypedMetricName, at, report
from headrace.sdk.operators.fusion.stage_plan import ElementStep, StagePlan, WindowStep

_IN = TypedMetricName("counter", ENGINE, "records_in")
_OUT = TypedMetricName("counter", ENGINE, "records_out")


class Throughput:
    """Counts the elements of each collection of a stage in a bundle; collections that nothing reads are not counted."""

    def __init__(self, plan: StagePlan) -> None:
        self._as_many_as = plan.as_many_as()
        self._steps = [
            (step.label, step.source, [step.output] if isinstance(step, WindowStep) else list(step.outputs.values()))
            for step in plan.steps
        ]
        self._counts: dict[int, int] = {}
        self._lost: dict[int, int] = {}

    def clear(self) -> None:
        """Begin a bundle: set all counts to zero."""
        self._counts.clear()
        self._lost.clear()

    def add(self, node: int, count: int) -> None:
        """Count the elements of a collection that a loop is about to run over."""
        if node not in self._as_many_as:
            self._counts[node] = self._counts.get(node, 0) + count

    def add_all(self, nodes: Sequence[int], counts: Sequence[int]) -> None:
        """Add the counts that a loop returned, one for each of the collections; ValueError if the lengths differ."""
        for node, count in zip(nodes, counts, strict=True):
            self._counts[node] = self._counts.get(node, 0) + count

    def count_lost(self, step: ElementStep) -> None:
        """Count an output of a step whose tag nothing reads."""
        node = step.outputs.get(None)
        if node in self._as_many_as:
            self._lost[node] = self._lost.get(node, 0) + 1

    def report(self) -> None:
        """Report the counts of the bundle as metrics of the steps."""
        for label, source, outputs in self._steps:
            with at(label):
                for metric, count in ((_IN, self._count(source)), (_OUT, sum(map(self._count, outputs)))):
                    if count:
                        report(metric, count)

    def _count(self, node: int) -> int:
        lost = 0
        while node in self._as_many_as:
            lost += self._lost.get(node, 0)
            node = self._as_many_as[node]
        return self._counts.get(node, 0) - lost
