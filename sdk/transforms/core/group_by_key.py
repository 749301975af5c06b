"""What: the primitive that groups the values of each key (`apache_beam.GroupByKey`)."""

from __future__ import annotations

import logging
from copy import copy
from typing import Any, Self

from headrace.lowlevel.errors import TopologyError
from headrace.options.pipeline_options import TypeOptions
from headrace.sdk.coders.key_types import key_problem
from headrace.sdk.coders.registry import registry
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.typehints.hints import ANY_PAIR, iterable_of, pair, tuple_of
from headrace.sdk.windows import GlobalWindows

_log = logging.getLogger(__name__)


class PercentileWatermark:
    """When: mixin of groupings whose input low watermark may ignore outliers (MillWheel paper §7.2)."""

    watermark_percentile: float | None = None
    """Percentile of recent records that the watermark waits for; None to wait for all records."""

    def with_watermark_percentile(self, percentile: float | None) -> Self:
        """The same transform with a low watermark that waits only for this percentile of recent records.

        The method is MillWheel's, not Beam's. After a source with `max_delay`, windows end after the delay that covers
        this share of recent records, instead of after the whole `max_delay`. Later records are late for this step and
        the steps after it, which treat them as their windowing says; other consumers of the same collection are not
        affected. After sources with a perfect watermark the method has no effect.

        Args:
            percentile: Percentile between 0 and 100, such as 99; None to wait for all records.

        Raises:
            ValueError: The percentile is not between 0 and 100.

        >>> from headrace.transforms import GroupByKey
        >>> GroupByKey().with_watermark_percentile(99).watermark_percentile
        99
        """
        if percentile is not None and not 0 < percentile < 100:
            raise ValueError(
                f"{type(self).__name__}: a watermark percentile is between 0 and 100, got {percentile!r}; leave it out "
                "to wait for all records"
            )
        clone = copy(self)
        clone.watermark_percentile = percentile
        return clone


class GroupByKey(PercentileWatermark, PTransform[PCollection[object], PCollection[object]]):
    """Groups values by key: pairs (key, value) become pairs (key, list of values), per window and pane.

    Keys are plain values, dates, enumerations, named tuples, rows, frozen dataclasses, tuples and other collections of
    these, and values of types that have a registered deterministic coder; any other key stops the run.

    Raises:
        TopologyError: By its type hint, the key type cannot be encoded deterministically; or the collection never ends
            and its windowing would never emit a result; or a trigger that finishes could drop values. The option
            `--allow_unsafe_triggers` turns the latter two into warnings. It is a `ValueError`.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.GroupByKey() | beam.MapTuple(print)
    a [1, 3]
    b [2]
    """

    def input_type(self) -> object:
        """See `PTransform`."""
        return super().input_type() if self.input_hints[0] else ANY_PAIR

    def takes(self, given: object) -> bool:
        """See `PTransform`; any type that unpacks to two items is accepted."""
        return super().takes(given) if self.input_hints[0] else pair(given) is not None

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        key, value = pair(input_type) or (Any, Any)
        return tuple_of([key, iterable_of(value)])

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of pairs (key, list of values) in the same windows."""
        return grouped(inputs, self.label)


def grouped(inputs: PCollection[object], label: str) -> PCollection[object]:
    """The output of a grouping step. Raises `TopologyError` for windowing that loses data or never fires."""
    if not isinstance(inputs, PCollection):
        raise TypeError(f"{label} was applied to {inputs!r:.200}; apply it to a collection of pairs")
    if problem := _unsafe(inputs):
        step = inputs.pipeline.current_label
        if not inputs.pipeline.options.view_as(TypeOptions).allow_unsafe_triggers:
            raise TopologyError(f"step {step!r}: {problem}, or allow it with --allow_unsafe_triggers")
        _log.warning("step %r: %s; allowed by --allow_unsafe_triggers", step, problem)
    _check_keys(inputs)
    return PCollection(inputs.pipeline, inputs.windowing.after_grouping(), inputs.is_bounded)


def _check_keys(inputs: PCollection[object]) -> None:
    """Refuse keys whose type has no deterministic encoding."""
    types = pair(inputs.element_type)
    if types is not None and (problem := key_problem(types[0], registry)):
        raise TopologyError(f"step {inputs.pipeline.current_label!r}: {problem}")


def _unsafe(inputs: PCollection[object]) -> str | None:
    windowing = inputs.windowing
    is_global = isinstance(windowing.window_fn, GlobalWindows)
    if not inputs.is_bounded and is_global and isinstance(windowing.trigger, DefaultTrigger):
        return (
            "its input never ends, so the default trigger on the global window never fires; "
            "give the input windows or a trigger with WindowInto"
        )
    if windowing.may_lose_data():
        return (
            f"trigger {windowing.trigger} may finish before its window is complete, and what comes then is dropped; "
            "wrap it in Repeatedly(...)"
        )
    return None
