"""What: unreadable records as a further output of a source instead of an error (`with_exception_handling`)."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import pyarrow as pa

from headrace.lowlevel import metric
from headrace.lowlevel.coders.key_classes import class_of
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import MODULE, address, stored_as
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.exception_guard import DEAD_LETTERS
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import DoOutputsTuple, PBegin, PCollection
from headrace.sdk.model.special_outputs import TaggedOutput
from headrace.sdk.transforms.core.low_level import Source
from headrace.sdk.transforms.core.par_do import ParDo


class Failure(NamedTuple):
    """Why a record cannot be read, in the form of the dead letters of other steps."""

    error: type[BaseException]
    message: str
    trace: list[str]

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure for a caught error."""
        return cls(type(error), repr(error), traceback.format_exception(error))


def _parts_of(failure: Failure) -> tuple[object, ...]:
    name = address(failure.error)
    return (name if name.startswith(MODULE) else failure.error, failure.message, failure.trace)


def _failure(error: type[BaseException] | str, message: str, trace: list[str]) -> Failure:
    return Failure(class_of(error) if isinstance(error, str) else error, message, trace)


stored_as("ReadFailure", _failure, _parts_of)(Failure)


@stored_as("UnreadableRecord")
class Unreadable(NamedTuple):
    """A record that cannot be read, among the elements of a source."""

    record: object
    """The record as it was read."""
    failure: Failure


def halves(
    table: pa.RecordBatch, first: int, batch: Callable[[pa.RecordBatch], Batch], bad: Callable[[int], object], time: int
) -> Iterator[Batch]:
    """Yield the elements of rows, with an `Unreadable` for each bad row; bad rows are found by halving the rows.

    Args:
        table: The rows.
        first: Number of the first row.
        batch: Function from rows to elements, which raises for a bad row.
        bad: Function from the number of a bad row to the record in its `Unreadable`.
        time: Event time of the `Unreadable`s, microseconds UTC.
    """
    try:
        elements = batch(table)
    except Exception as error:
        if (half := table.num_rows // 2) > 0:
            yield from halves(table.slice(0, half), first, batch, bad, time)
            yield from halves(table.slice(half), first + half, batch, bad, time)
            return
        elements = Batch([Unreadable(bad(first), Failure.of(error))], [time])
    yield elements


class ReadApart(PTransform[PBegin, DoOutputsTuple]):
    """A source with a second output for records that cannot be read: pairs (record, (class, repr, traceback lines)).

    Args:
        source: The source, which emits `Unreadable`s.
        main_tag: Name of the main output.
        dead_letter_tag: Name of the output for unreadable records.
    """

    def __init__(self, source: Source, main_tag: str, dead_letter_tag: str) -> None:
        super().__init__(source.label)
        self._source, self._main, self._dead = source, main_tag, dead_letter_tag

    def expand(self, inputs: PBegin) -> DoOutputsTuple:
        """The elements, and the unreadable records."""
        elements: PCollection[object] = inputs.pipeline | "Read" >> self._source
        return elements | "Set apart" >> ParDo(SetApart(self._dead)).with_outputs(self._dead, main=self._main)


class SetApart(DoFn):
    """Passes on the elements of a source unchanged, and sets what it could not read apart."""

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def process(self, element: object) -> Iterator[object]:
        """The element, or what could not be read with the reason, under the tag."""
        if isinstance(element, Unreadable):
            metric.report(DEAD_LETTERS, 1)
            yield TaggedOutput(self._tag, (element.record, tuple(element.failure)))
        else:
            yield element


class TolerantSource(Source):
    """A source that can continue after a record that it cannot read; the subclass says which records these are."""

    _tolerant = False
    """Whether such records become `Unreadable`s instead of errors."""

    def tolerant(self) -> Self:
        """The same source, which emits `Unreadable`s instead of raising."""
        other = copy.copy(self)
        other._tolerant = True
        return other

    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad") -> ReadApart:
        """The same source with an output for records that cannot be read, which stop the run otherwise.

        Its elements are pairs (record, (class of the error, its repr, lines of its traceback)).
        """
        return ReadApart(self.tolerant(), main_tag, dead_letter_tag)
