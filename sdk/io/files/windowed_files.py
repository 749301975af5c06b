"""When: files of windowed collections: a set of them for each window and pane (`apache_beam.io.fileio`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count
from typing import cast

from headrace.lowlevel.record import Batch
from headrace.sdk.graph import GROUPING, stateful_signature
from headrace.sdk.io.fileparts import Mark, Part
from headrace.sdk.io.filesink import FileSink
from headrace.sdk.io.filesource import FileSource
from headrace.sdk.panes import PaneInfo
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection, PDone, PValue
from headrace.sdk.transforms.changelog import may_retract
from headrace.sdk.transforms.element import DoFn, FlatMap, Map, ParDo
from headrace.sdk.transforms.group import GroupByKey
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.transforms.write import Write
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.windows import BoundedWindow, GlobalWindow, GlobalWindows

Collection = PCollection[object]
SHARDS = 5
"""Files of a window that is gathered here, where nobody says how many: as in Beam."""
_MOST_SHARDS = 1_000_000


class WriteFiles(Write):
    """Writes files; the base of the transforms for the single formats, which all say this of windows.

    What is in the global window and comes from no trigger becomes files `<prefix>-<shard>-of-<shards>` when the input
    has ended; of an unbounded collection, and with `if_exists="append"`, files of each epoch when it is committed:
    `<prefix>-<epoch>-<number>`. Otherwise each window and pane has files of its own when its epoch is committed,
    `<prefix>-<start>-<end>-<pane>-<epoch>-<number>-of-<files>`, without times for the global window. What comes from a
    grouping has its pane; what was only put into windows is gathered until their trigger fires.

    Args:
        files: The sink for files of one format.
        num_shards: Into how many parts, and so files at most, to divide what is gathered here for a pane.
        windowed_writes: False for files as in the global window, whatever the windows.

    All formats take `if_exists`, which `FileSink` explains.
    """

    def __init__(self, files: FileSink, num_shards: int | None, windowed_writes: bool) -> None:
        super().__init__(files)
        if num_shards is not None and num_shards not in range(_MOST_SHARDS):
            raise ValueError(f"num_shards is {num_shards!r}; give a whole number, 0 to leave it to the engine")
        self._files = files
        self._shards = num_shards or SHARDS
        self._windowed = windowed_writes

    def is_whole(self, inputs: Sequence[PValue]) -> bool:
        """See `Write`."""
        return not any(isinstance(one, PCollection) and self._by_window(one) for one in inputs)

    def _by_window(self, inputs: Collection) -> bool:
        windowing = inputs.windowing
        is_global = isinstance(windowing.window_fn, GlobalWindows)
        return self._windowed and not (is_global and isinstance(windowing.trigger, DefaultTrigger))

    def expand(self, inputs: Collection) -> PDone:
        """Nothing comes after it. Raises `ValueError` if another step writes files of the same names."""
        if isinstance(inputs, PCollection):
            self._look_around(inputs.pipeline)
        if not self.is_whole([inputs]):
            panes = inputs if _comes_in_panes(inputs) else inputs | "Gather" >> _Gather(self._shards)
            return panes | "Mark" >> Map(_marked) | "Files" >> Write(WindowedFiles(self._files))
        done = super().expand(inputs)
        self._files.show_at_end(inputs.is_bounded)
        return done

    def _look_around(self, pipeline: Pipeline) -> None:
        """Refuse files of another step's names, and see which files the pipeline reads, once all of it is there."""
        label, place = pipeline.current_label, self._files.place
        for step in pipeline.steps:
            other = step.transform
            if isinstance(other, WriteFiles) and step.full_label != label and place.clashes(other._files.place):
                raise ValueError(
                    f"steps {step.full_label!r} and {label!r} both write files that begin with {place.prefix}, so "
                    "that one would overwrite the other's; give one of them another prefix or suffix"
                )
        pipeline.checks.append(partial(self._see_reading, pipeline))

    def _see_reading(self, pipeline: Pipeline) -> None:
        sources = (step.transform for step in pipeline.steps)
        self._files.read_patterns = [source.pattern for source in sources if isinstance(source, FileSource)]


def _marked(
    element: object, window: BoundedWindow = DoFn.WindowParam, pane: PaneInfo = DoFn.PaneInfoParam
) -> tuple[object, tuple[int | None, int | None, int, bool]]:
    if isinstance(window, GlobalWindow):
        return element, (None, None, pane.index, pane.is_retraction)
    start = getattr(window, "start_us", None)
    return element, (start if isinstance(start, int) else None, window.end_us, pane.index, pane.is_retraction)


def _comes_in_panes(collection: Collection) -> bool:
    """Whether elements come with panes of the windows that they are in."""
    producer = collection.producer
    assert producer is not None
    if isinstance(producer.transform, GROUPING):
        return True
    if isinstance(producer.transform, WindowInto) or stateful_signature(producer) is not None:
        return False
    sources = _sources(producer)
    return bool(sources) and all(map(_comes_in_panes, sources))


def _sources(step: Step) -> list[Collection]:
    return [one for one in step.inputs if isinstance(one, PCollection)]


class _Gather(PTransform[Collection, Collection]):
    """Elements of a window, when its trigger fires."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self._shards = shards

    def expand(self, inputs: Collection) -> Collection:
        """The same elements, in panes."""
        # What is taken back must be looked for where it was put.
        shards = 1 if may_retract(inputs) else self._shards
        grouped = inputs | "Shard" >> ParDo(_Shard(shards)) | "Group" >> GroupByKey()
        return grouped | "Ungroup" >> FlatMap(_values)


class _Shard(DoFn):
    """Numbers elements round and round."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def start_bundle(self) -> None:
        """A bundle that is run again gives equal numbers."""
        self._next = count()

    def process(self, element: object) -> list[tuple[int, object]]:
        """The element with the number of its shard."""
        return [(next(self._next) % self._shards, element)]


def _values(pair: tuple[int, Iterable[object]]) -> Iterable[object]:
    return pair[1]


class WindowedFiles:
    """Files as a sink for what `_marked` makes: a `FileSink`'s, apart for each window and pane.

    Args:
        files: Writes the files of one window and pane.
    """

    def __init__(self, files: FileSink) -> None:
        self._files = files

    def begin(self, anew: bool) -> bytes | None:
        """See `FileSink.begin`."""
        return self._files.begin(anew)

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: hidden files for each window and pane; the receipt says which are for which."""
        rows_of: dict[Mark, list[tuple[object, int]]] = {}
        for marked, timestamp in batch.rows():
            element, mark = cast("tuple[object, tuple[int | None, int | None, int, bool]]", marked)
            rows_of.setdefault(Mark(*mark), []).append((element, timestamp))
        staged: list[Part] = []
        for number, (mark, rows) in enumerate(rows_of.items()):
            elements, timestamps = zip(*rows, strict=True)
            parts = self._files.write_parts(Batch(elements, timestamps), epoch, interval, f"{token}-{number}")
            staged += [part._replace(mark=mark) for part in parts]
        return self._files.receipt(staged) if staged else None

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """On the driver: name the files of a committed epoch, and clean up."""
        self._files.deliver(epoch, receipts)

    def finish(self, epoch: int, ended: bool) -> None:
        """See `FileSink.finish`."""
        self._files.finish(epoch, ended)
