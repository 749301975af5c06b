"""How: panes and retractions as a changelog of ordinary elements, and back (Flink's `toChangelogStream`)."""

from __future__ import annotations

from typing import cast

from headrace.sdk.functions.changelog import Change, ChangelogFn, FromChanges, RetractingFn, ToChanges
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection, PCollection
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.triggers import AccumulationMode


class ToChangelog(PTransform[Collection, "PCollection[Change]"]):
    """Turns each element into a `Change`: a result into an insertion, a retraction into a deletion.

    Changes are ordinary elements with the windows, the timestamps and the panes of the original elements, except that
    `PaneInfo.is_retraction` is false. So later steps do not treat them as retractions, and sinks and functions with
    state accept them. If `AccumulationMode.ACCUMULATING_AND_RETRACTING` replaces a result, the deletion of the old
    result comes before the insertion of the new one.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["britney"]) | beam.ToChangelog() | beam.Map(lambda change: print(*change))
    + britney
    """

    def expand(self, inputs: Collection) -> PCollection[Change]:
        """One change for each element and window."""
        return cast("PCollection[Change]", inputs | "Changes" >> ParDo(ToChanges()))


class FromChangelog(PTransform[Collection, Collection]):
    """Turns a changelog into the collection that it describes; deletions become retractions.

    Later steps remove a deleted value from the windows of the deletion, so the timestamp of a deletion must be in the
    window of the insertion; in the global window any timestamp will do. `ToChangelog` keeps windows and timestamps, so
    `FromChangelog` is its inverse.

    Each element is a `Change`, or a tuple of "+" or "-" and a value. Any other element stops the run with `StepError`.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     changes = [beam.Change(beam.ChangeKind.INSERT, 3), beam.Change(beam.ChangeKind.DELETE, 3)]
    ...     counts = pipeline | beam.Create(changes) | beam.FromChangelog() | beam.combiners.Count.Globally()
    ...     _ = counts | beam.Map(print)
    0
    """

    def expand(self, inputs: Collection) -> Collection:
        """One element for each change."""
        return inputs | "Values" >> ParDo(FromChanges())


def may_retract(collection: Collection) -> bool:
    """Whether a collection may have retractions, judged by the steps before it; False is certain."""
    producer = collection.producer
    assert producer is not None, "a collection that can be read has a producer"
    if isinstance(producer.transform, ParDo) and isinstance(producer.transform.fn, ChangelogFn):
        return isinstance(producer.transform.fn, RetractingFn)
    sources = [source for source in producer.inputs if isinstance(source, PCollection)]
    mode = AccumulationMode.ACCUMULATING_AND_RETRACTING
    return any(source.windowing.accumulation_mode is mode or may_retract(source) for source in sources)
