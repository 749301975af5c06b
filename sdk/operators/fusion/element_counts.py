"""How many elements each step of a stage takes in and puts out: the engine's own metrics of a stage."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.metric import ENGINE, Metric, at, report
from headrace.sdk.fusion.plan import ElementStep, StagePlan, WindowStep

_IN = Metric("counter", ENGINE, "records_in")
_OUT = Metric("counter", ENGINE, "records_out")


class Throughput:
    """Elements of each collection in a bundle; collections that nothing reads are not counted."""

    def __init__(self, plan: StagePlan) -> None:
        self._as_many_as = plan.as_many_as()
        self._steps = [
            (step.label, step.source, [step.output] if isinstance(step, WindowStep) else list(step.outputs.values()))
            for step in plan.steps
        ]
        self._counts: dict[int, int] = {}
        self._lost: dict[int, int] = {}

    def clear(self) -> None:
        """A bundle begins."""
        self._counts.clear()
        self._lost.clear()

    def add(self, node: int, count: int) -> None:
        """A loop over elements of a collection begins."""
        if node not in self._as_many_as:
            self._counts[node] = self._counts.get(node, 0) + count

    def add_all(self, nodes: Sequence[int], counts: Sequence[int]) -> None:
        """What a loop has put into collections and read from them at once."""
        for node, count in zip(nodes, counts, strict=True):
            self._counts[node] = self._counts.get(node, 0) + count

    def lose(self, step: ElementStep) -> None:
        """An output has a tag that nothing reads."""
        node = step.outputs.get(None)
        if node in self._as_many_as:
            self._lost[node] = self._lost.get(node, 0) + 1

    def tell(self) -> None:
        """The bundle ends: report what it has come to."""
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
