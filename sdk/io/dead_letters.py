"""What: records that cannot be read, as an output of a source instead of an error (`with_exception_handling`)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from headrace.lowlevel.record import Batch
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import DoOutputsTuple, PBegin, PCollection, TaggedOutput
from headrace.sdk.transforms.element import DoFn, ParDo
from headrace.sdk.transforms.source import Source


class Failure(NamedTuple):
    """Why a record cannot be read, in the form that dead letters of other steps have."""

    error: type[BaseException]
    message: str
    trace: list[str]

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Of an error that was caught."""
        return cls(type(error), repr(error), traceback.format_exception(error))


class Unreadable(NamedTuple):
    """Among the elements of a source: a record that is none of them."""

    record: object
    """As it was found."""
    failure: Failure


def halves(
    table: pa.RecordBatch, first: int, batch: Callable[[pa.RecordBatch], Batch], bad: Callable[[int], object], time: int
) -> Iterator[Batch]:
    """The elements of some rows, and `Unreadable`s for those that have none: of rows among which is one, each half.

    Args:
        table: The rows.
        first: Number of the first.
        batch: Makes elements of rows, or raises.
        bad: From the number of a row to the record that it is set apart as.
        time: Its event time, microseconds UTC.
    """
    try:
        read = batch(table)
    except Exception as error:
        if (half := table.num_rows // 2) > 0:
            yield from halves(table.slice(0, half), first, batch, bad, time)
            yield from halves(table.slice(half), first + half, batch, bad, time)
            return
        read = Batch([Unreadable(bad(first), Failure.of(error))], [time])
    yield read


class Tolerant(Protocol):
    """A source that can go on behind what it cannot read."""

    def tolerant(self) -> Source:
        """The same, giving `Unreadable`s instead of raising."""


class ReadApart(PTransform[PBegin, DoOutputsTuple]):
    """A source with an output for records that cannot be read: pairs (record, (class, repr, traceback lines)).

    Args:
        source: What reads.
        main_tag: Name of the main output.
        dead_letter_tag: Name of the other.
    """

    def __init__(self, source: Source, main_tag: str, dead_letter_tag: str) -> None:
        super().__init__(source.label)
        self._source, self._main, self._dead = source, main_tag, dead_letter_tag

    def expand(self, inputs: PBegin) -> DoOutputsTuple:
        """The elements, and what is none."""
        read: PCollection[object] = inputs.pipeline | "Read" >> self._source
        return read | "Set apart" >> ParDo(_SetApart(self._dead)).with_outputs(self._dead, main=self._main)


class _SetApart(DoFn):
    def __init__(self, tag: str) -> None:
        self._tag = tag

    def process(self, element: object) -> Iterator[object]:
        if isinstance(element, Unreadable):
            yield TaggedOutput(self._tag, (element.record, tuple(element.failure)))
        else:
            yield element
