"""How: panes and their retractions as a change log of ordinary elements, and back (Flink's `toChangelogStream`)."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple, cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.panes import PaneInfo
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.element import DoFn, ParDo
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import BoundedWindow

Collection = PCollection[object]


class ChangeKind(StrEnum):
    """What a change does to the table that a change log describes.

    >>> ChangeKind("+") is ChangeKind.INSERT, f"{ChangeKind.DELETE}"
    (True, '-')
    """

    INSERT = "+"
    """The value is put in."""
    DELETE = "-"
    """One value equal to this one is taken out."""


class Change(NamedTuple):
    """One line of a change log.

    >>> Change(ChangeKind.INSERT, ("oslo", 2)) == ("+", ("oslo", 2))
    True
    """

    kind: ChangeKind
    value: object


class ToChangelog(PTransform[Collection, "PCollection[Change]"]):
    """Makes a `Change` of each element: an insertion of a result, a deletion of a retraction.

    The changes are ordinary elements in the windows, at the timestamps and with the panes of the elements that they are
    made of: `PaneInfo.is_retraction` is false, no step behind takes them out of anything, and sinks and functions with
    state accept them. Where `AccumulationMode.ACCUMULATING_AND_RETRACTING` replaces a result, the deletion of the old
    result comes before the insertion of the new one.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["britney"]) | beam.ToChangelog() | beam.Map(lambda change: print(*change))
    + britney
    """

    def expand(self, inputs: Collection) -> PCollection[Change]:
        """As many changes as there are elements, for each of their windows."""
        return cast("PCollection[Change]", inputs | "Changes" >> ParDo(ToChanges()))


class FromChangelog(PTransform[Collection, Collection]):
    """Makes of changes the collection that they describe, of which deletions are retractions.

    A step behind takes a deleted value out of the windows that the deletion is in, so a deletion needs a timestamp in
    the window of the insertion; in the global window any will do. `ToChangelog` keeps windows and timestamps, so what
    it made becomes what it was made of.

    Each element is a `Change`, or a tuple of "+" or "-" and a value. Anything else stops the run with a `StepError`.
    """

    def expand(self, inputs: Collection) -> Collection:
        """As many elements as there are changes."""
        return inputs | "Values" >> ParDo(FromChanges())


class ChangelogFn(DoFn):
    """A `DoFn` whose outputs leave in the order of its inputs: the deletion of a result before its replacement."""


def may_retract(collection: Collection) -> bool:
    """Whether elements may be retractions, as far as can be told before the pipeline is complete: no is certain."""
    producer = collection.producer
    assert producer is not None, "a collection that can be read has a producer"
    if isinstance(producer.transform, ParDo) and isinstance(producer.transform.fn, ChangelogFn):
        return isinstance(producer.transform.fn, FromChanges)
    sources = [source for source in producer.inputs if isinstance(source, PCollection)]
    mode = AccumulationMode.ACCUMULATING_AND_RETRACTING
    return any(source.windowing.accumulation_mode is mode or may_retract(source) for source in sources)


class ToChanges(ChangelogFn):
    """Elements become changes; what comes behind has no retractions."""

    def process(
        self,
        element: object,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: BoundedWindow = DoFn.WindowParam,
        pane: PaneInfo = DoFn.PaneInfoParam,
    ) -> list[object]:
        """The change."""
        kind = ChangeKind.DELETE if pane.is_retraction else ChangeKind.INSERT
        return [WindowedValue(Change(kind, element), timestamp, [window], replace(pane, is_retraction=False))]


class FromChanges(ChangelogFn):
    """Changes become elements and retractions."""

    def process(
        self,
        change: object,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: BoundedWindow = DoFn.WindowParam,
        pane: PaneInfo = DoFn.PaneInfoParam,
    ) -> list[object]:
        """The value, and whether it is taken back."""
        match change:
            case (ChangeKind.INSERT | ChangeKind.DELETE as kind, value):
                shown = replace(pane, is_retraction=kind == ChangeKind.DELETE)
                return [WindowedValue(value, timestamp, [window], shown)]
        raise TypeError(
            f"{change!r:.200} is no change; give Change(ChangeKind.INSERT, value) or Change(ChangeKind.DELETE, value), "
            "or a tuple of '+' or '-' and a value"
        )
