"""Translation of `Read`, of `ReadFromParquet`, and of the splittable DoFn that reads bounded sources.

Bounded sources are split in the workers and read bundle by bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

import apache_beam
from apache_beam.internal import pickler
from apache_beam.io import iobase, parquetio
from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms.window import TimestampedValue

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.runners.beam.functions.direct_fns import BeamPlainDoFn
from headrace.runners.beam.parquet_rows import DictsOfTables, steps_of_rows
from headrace.runners.beam.translation import Rule, Translation
from headrace.sdk.transforms.core.low_level import Read
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.transforms.core.reshuffle import Reshuffle

_LARGEST_BUNDLE = 64 << 20
"""Size in bytes above which no bundle is asked for, as a bundle is read within one epoch."""
_MOST_BUNDLES = 2_000
"""Number of bundles from which larger ones are asked for, as each commit contains those that are not read yet."""
_BATCH = 10_000
"""Number of elements that are in memory at once while a bundle is read."""

Position: TypeAlias = tuple[tuple[bytes, ...] | None, int, int]
"""Bundles that are still to be read, pickled (None if the source is not split yet), and how many bundles and elements
were read."""
Batches: TypeAlias = Callable[[Iterator[object]], Iterator[Batch]]
"""From what a source reads to batches of elements."""


def bundles_of(source: iobase.BoundedSource) -> list[iobase.SourceBundle]:
    """The bundles into which a source splits, of a size that suits the size of the source."""
    try:
        size = source.estimate_size() or 0
    except NotImplementedError:
        size = 0
    largest = max(_LARGEST_BUNDLE, size // _MOST_BUNDLES)
    return list(source.split(min(iobase.Read.get_desired_chunk_size(size), largest)))


def read_bundle(bundle: iobase.SourceBundle) -> Iterator[object]:
    """The elements of a bundle, one by one."""
    tracker = bundle.source.get_range_tracker(bundle.start_position, bundle.stop_position)
    return iter(bundle.source.read(tracker))


class SplitBoundedSource(apache_beam.DoFn):  # type: ignore[misc]  # Beam's types are not read
    """A source -> its bundles, pickled."""

    def process(self, element: iobase.BoundedSource) -> Iterator[bytes]:
        """The bundles of a source."""
        return map(pickler.dumps, bundles_of(element))


class ReadSourceBundle(apache_beam.DoFn):  # type: ignore[misc]  # Beam's types are not read
    """A pickled bundle -> its elements."""

    def process(self, element: bytes) -> Iterator[object]:
        """The elements of a bundle."""
        return read_bundle(pickler.loads(element))


def batches_of(elements: Iterator[object]) -> Iterator[Batch]:
    """The elements in batches, at their timestamps."""
    while values := list(islice(elements, _BATCH)):
        yield _batch(values)


class _BundleSplit:
    """Reads a bundle, which is pickled, and tells how many elements it has."""

    def __init__(self, bundle: bytes, batches: Batches) -> None:
        self._bundle, self._batches_of = bundle, batches
        self._elements = 0

    def read(self) -> Iterator[Batch]:
        """See `Split`."""
        return self._batches(pickler.loads(self._bundle))

    def _batches(self, bundle: iobase.SourceBundle) -> Iterator[Batch]:
        for batch in self._batches_of(read_bundle(bundle)):
            self._elements += len(batch)
            yield batch

    def told(self) -> Position:
        """See `TellingSplit`: what is to be added to the position."""
        return (), 1, self._elements


class _SourceSplit(_BundleSplit):
    """Splits a source, which is pickled, reads the first bundle, and tells the other bundles."""

    _others: tuple[bytes, ...] = ()

    def read(self) -> Iterator[Batch]:
        """See `Split`."""
        bundles = bundles_of(pickler.loads(self._bundle))
        self._others = tuple(map(pickler.dumps, bundles[1:]))
        return self._batches(bundles[0]) if bundles else iter(())

    def told(self) -> Position:
        """See `TellingSplit`: the position."""
        return self._others, 1, self._elements


def _batch(values: list[Any]) -> Batch:
    """Elements at the least timestamp, or at the timestamps that the source gives them."""
    if TimestampedValue not in set(map(type, values)):
        return Batch(values, [MIN_TIMESTAMP] * len(values))
    is_timed = [type(value) is TimestampedValue for value in values]
    return Batch(
        [value.value if timed else value for value, timed in zip(values, is_timed, strict=True)],
        [value.timestamp.micros if timed else MIN_TIMESTAMP for value, timed in zip(values, is_timed, strict=True)],
    )


@named("BeamSourceInjector")
class SourceInjector(BaseInjector):
    """Reads a bounded source of Beam's SDK.

    The source is split in a worker, in the first epoch, which also reads the first bundle. The other bundles are part
    of the position, so that a run that goes on from a checkpoint reads them even if the source would be split otherwise
    by then.

    Args:
        source: The source.
        batches: What makes batches of elements of what the source reads, if that is not the elements themselves.
    """

    def __init__(self, source: iobase.BoundedSource, batches: Batches = batches_of) -> None:
        self._source: bytes = pickler.dumps(source)
        self._batches = batches

    def start(self) -> object:
        """The source is not split yet."""
        return None, 0, 0

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next bundles: as many as are likely to have `limit` elements."""
        bundles, read, elements = cast(Position, position)
        if bundles is None:
            return Delivery([_SourceSplit(self._source, self._batches)], position)
        likely = limit * read // elements if elements else splits
        now, rest = bundles[: max(likely, 1)], bundles[max(likely, 1) :]
        splits_now = [_BundleSplit(bundle, self._batches) for bundle in now]
        return Delivery(splits_now, (rest, read, elements), done=not rest)

    def learned(self, position: object, told: Sequence[object]) -> object:
        """The position behind the bundles that were read."""
        rest, read, elements = cast(Position, position)
        found = cast("Sequence[Position]", told)
        others = [bundle for bundles, _, _ in found for bundle in bundles or ()]
        return (
            (*(rest or ()), *others),
            read + sum(each for _, each, _ in found),
            elements + sum(each for _, _, each in found),
        )


def _read(made: Translation, step: AppliedPTransform) -> None:
    source = step.transform.source
    if isinstance(source, iobase.BoundedSource):
        made.put(step, made.pipeline | step.full_label >> Read(SourceInjector(source)))
    else:
        made.enter(step)


def _read_rows(made: Translation, step: AppliedPTransform) -> None:
    parts = steps_of_rows(step)
    if parts is None:
        made.enter(step)
        return
    read, rows = parts
    injector = SourceInjector(read.transform.source, DictsOfTables(rows.full_label))
    made.put(rows, made.pipeline | read.full_label >> Read(injector))


def _read_sources(made: Translation, step: AppliedPTransform) -> None:
    label = step.full_label
    bundles = made.source(step) | f"{label}/Split" >> ParDo(BeamPlainDoFn(SplitBoundedSource()))
    read = ParDo(BeamPlainDoFn(ReadSourceBundle()))
    made.put(step, bundles | f"{label}/Reshuffle" >> Reshuffle() | label >> read)


RULES: dict[type, Rule] = {
    iobase.Read: _read,
    iobase.SDFBoundedSourceReader: _read_sources,
    parquetio.ReadFromParquet: _read_rows,
}
