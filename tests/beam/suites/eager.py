"""Results of eager pipelines (`[1, 2] | beam.Map(...)`) on Spark.

Beam always runs such a pipeline on its direct runner, where a DoFn appends each value to a list in the same process. On
Spark the values go to the driver as rows of a sink instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getclosurevars
from typing import Any, ClassVar

from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import core

from headrace.lowlevel.sinks.sink import CallSink
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.translation import Translation
from headrace.sdk.transforms.core.low_level import Write


class _Result:
    """Appends rows to a list of this process, of which a copy elsewhere knows nothing but the number."""

    _lists: ClassVar[list[list[Any]]] = []

    def __init__(self, values: list[Any]) -> None:
        self._number = len(self._lists)
        self._lists.append(values)

    def __call__(self, epoch: int, rows: Sequence[tuple[object, int]]) -> None:
        self._lists[self._number].extend(row for row, _ in rows)


def collect_on_driver() -> None:
    """Have the runner collect the results of eager pipelines on the driver."""
    others = RULES[core.ParDo]

    def par_do(made: Translation, step: AppliedPTransform) -> None:
        fn = step.transform.fn
        if not hasattr(fn, "is_materialize_values_do_fn"):
            others(made, step)
            return
        result = getclosurevars(type(fn).process).nonlocals["result"]
        _ = made.source(step) | step.full_label >> Write(CallSink(_Result(result.elements)))

    RULES[core.ParDo] = par_do
