"""When: files of windowed collections, a set of files for each window and pane (`apache_beam.io.fileio`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import cast
from zlib import crc32

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import BaseSink
from headrace.lowlevel.stored_names import named
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import BasePipeline, PCollection, PValue
from headrace.sdk.io.files.file_sink import EpochFileSink
from headrace.sdk.io.files.file_source import FileSource
from headrace.sdk.io.files.output_files import PaneMark, StagedFile
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.low_level import Write
from headrace.sdk.transforms.core.par_do import FlatMap, Map, ParDo
from headrace.sdk.transforms.core.reshuffle import ReshufflePerKey
from headrace.sdk.transforms.core.steps import GROUPING, runs_by_key
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.transforms.util.changelog import may_retract
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.windows import BoundedWindow, GlobalWindow, GlobalWindows

Collection = PCollection[object]
SHARDS = 5
"""Default of the greatest number of files of a pane, as in Beam."""
_MOST_SHARDS = 1_000_000


class WriteFiles(Write):
    """Writes files; the base of the transforms for the single formats.

    Elements in the global window with the default trigger become files `<prefix>-<shard>-of-<shards>` when the input
    has ended; if the collection is unbounded, or with `if_exists="append"`, each epoch has files
    `<prefix>-<epoch>-<number>` when it is committed. Otherwise each window and pane has files of its own when its epoch
    is committed, `<prefix>-<start>-<end>-<pane>-<epoch>-<number>-of-<files>`, without times for the global window.
    Elements of a grouping have panes; other elements are gathered until the trigger of their window fires.

    Args:
        files: The sink for files of one format.
        num_shards: Number of files: for the whole of a bounded collection, and otherwise for each window and pane, or
            for each epoch of a collection that has no windows. Elements are then shuffled, and those of a bounded
            collection without windows are state until its input has ended. There are fewer files if there are fewer
            elements. 0 or None to leave it to the engine: each task that has rows writes a file.
        windowed_writes: Whether each window has files of its own; False for files as in the global window.

    All formats take `if_exists`, which `WriteToText` explains.
    """

    def __init__(self, files: EpochFileSink, num_shards: int | None, windowed_writes: bool) -> None:
        super().__init__(files)
        if num_shards is not None and num_shards not in range(_MOST_SHARDS):
            raise ValueError(f"num_shards is {num_shards!r}; give a whole number, 0 to leave it to the engine")
        self._files = files
        self._shards = num_shards
        self._windowed = windowed_writes

    def is_whole(self, inputs: Sequence[PValue]) -> bool:
        """See `Write.is_whole`."""
        given = [value for value in inputs if isinstance(value, PCollection)]
        return not any(self._by_window(value) or self._number_of_files(value) for value in given)

    def _number_of_files(self, inputs: Collection) -> int:
        """The number of files that was asked for; 0 for none. A retraction is in the file that its task writes."""
        return 0 if may_retract(inputs) else self._shards or 0

    def _by_window(self, inputs: Collection) -> bool:
        windowing = inputs.windowing
        is_global = isinstance(windowing.window_fn, GlobalWindows)
        return self._windowed and not (is_global and isinstance(windowing.trigger, DefaultTrigger))

    def expand(self, inputs: Collection) -> PValue:
        """The end of a branch. Raises `ValueError` if another step writes files with the same names."""
        if isinstance(inputs, PCollection):
            self._check_clashes(inputs.pipeline)
        if not self.is_whole([inputs]):
            return self._in_panes(inputs)
        done = super().expand(inputs)
        self._files.show_at_end(inputs.is_bounded)
        return done

    def _in_panes(self, inputs: Collection) -> PValue:
        """Files of windows and panes, or a number of files that was asked for."""
        shards = self._number_of_files(inputs)
        if self._by_window(inputs):
            panes = inputs if _comes_in_panes(inputs) else inputs | "Gather" >> _GatherPanes(shards or SHARDS)
            marked = panes | "PaneMark" >> Map(_marked)
        else:
            self._files.show_at_end(inputs.is_bounded)
            if inputs.is_bounded:
                inputs = inputs | "Whole" >> WindowInto(GlobalWindows()) | "Gather" >> _GatherPanes(shards)
            marked = inputs | "NoMark" >> Map(_unmarked)
        if shards:
            marked = marked | "Shards" >> ParDo(_AssignShard(shards)) | "ByShard" >> ReshufflePerKey()
        return marked | "Files" >> Write(WindowedFiles(self._files, by_shard=shards > 0))

    def _check_clashes(self, pipeline: BasePipeline) -> None:
        """Raise `ValueError` for another step with the same file names; note later what the pipeline reads."""
        label, output = pipeline.current_label, self._files.output_name
        for step in pipeline.steps:
            other = step.transform
            if isinstance(other, WriteFiles) and step.full_label != label and output.clashes(other._files.output_name):
                raise ValueError(
                    f"steps {step.full_label!r} and {label!r} both write files that begin with {output.prefix}, so "
                    "that one would overwrite the other's; give one of them another prefix or suffix"
                )
        pipeline.checks.append(partial(self._note_sources, pipeline))

    def _note_sources(self, pipeline: BasePipeline) -> None:
        sources = (step.transform for step in pipeline.steps)
        self._files.read_patterns = [source.pattern for source in sources if isinstance(source, FileSource)]


def _marked(
    element: object, window: BoundedWindow = DoFn.WindowParam, pane: PaneInfo = DoFn.PaneInfoParam
) -> tuple[object, tuple[int | None, int | None, int, bool]]:
    if isinstance(window, GlobalWindow):
        return element, (None, None, pane.index, pane.is_retraction)
    start = getattr(window, "start_us", None)
    return element, (start if isinstance(start, int) else None, window.end_us, pane.index, pane.is_retraction)


def _unmarked(element: object) -> tuple[object, None]:
    return element, None


def _comes_in_panes(collection: Collection) -> bool:
    """Whether the elements have panes of their windows, because all of them come from groupings."""
    producer = collection.producer
    assert producer is not None
    if isinstance(producer.transform, GROUPING):
        return True
    if isinstance(producer.transform, WindowInto) or runs_by_key(producer):
        return False
    sources = [value for value in producer.inputs if isinstance(value, PCollection)]
    return bool(sources) and all(map(_comes_in_panes, sources))


class _GatherPanes(PTransform[Collection, Collection]):
    """Emits the elements of a window when its trigger fires."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self._shards = shards

    def expand(self, inputs: Collection) -> Collection:
        """The same elements, with panes."""
        # A retracted element must be looked for in the shard of its insertion.
        shards = 1 if may_retract(inputs) else self._shards
        grouped = inputs | "Shard" >> ParDo(_AssignShard(shards)) | "Group" >> GroupByKey()
        return grouped | "Ungroup" >> FlatMap(_values)


class _AssignShard(DoFn):
    """Assigns shards to elements in turn."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def start_bundle(self) -> None:
        """Begin anew, so that a repeated bundle assigns equal shards."""
        self._next: Iterator[int] | None = None

    def process(self, element: object) -> list[tuple[int, object]]:
        """The element with the number of its shard."""
        if self._next is None:
            # Many bundles have one element; they begin with different shards.
            self._next = count(crc32(repr(element).encode()))
        return [(next(self._next) % self._shards, element)]


def _values(pair: tuple[int, Iterable[object]]) -> Iterable[object]:
    return pair[1]


@named("WindowedFiles")
class WindowedFiles(BaseSink):
    """A sink for the elements of `_marked`, with files of an `EpochFileSink` for each window and pane.

    Args:
        files: Writes the files of one window and pane.
        by_shard: Whether elements are pairs of the number of a shard and what `_marked` gives; each shard is a file.
    """

    def __init__(self, files: EpochFileSink, by_shard: bool = False) -> None:
        self._files = files
        self._by_shard = by_shard

    def begin(self, anew: bool) -> bytes | None:
        """See `EpochFileSink.begin`."""
        return self._files.begin(anew)

    def held(self) -> bytes | None:
        """See `EpochFileSink.held`."""
        return self._files.held()

    def agreement(self) -> bytes | None:
        """See `EpochFileSink.agreement`."""
        return self._files.agreement()

    def agree(self, agreement: bytes) -> None:
        """See `EpochFileSink.agree`."""
        self._files.agree(agreement)

    def settle(self, epoch: int, receipts: Sequence[bytes]) -> list[bytes]:
        """See `EpochFileSink.settle`."""
        return self._files.settle(epoch, receipts)

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: write hidden files for each window and pane; the receipt lists them with window and pane."""
        rows_of: dict[tuple[object, PaneMark | None], list[tuple[object, int]]] = {}
        for value, timestamp in batch.rows():
            shard, marked = cast("tuple[object, object]", value) if self._by_shard else (0, value)
            element, mark = cast("tuple[object, tuple[int | None, int | None, int, bool] | None]", marked)
            key = shard, None if mark is None else PaneMark(*mark)
            rows_of.setdefault(key, []).append((element, timestamp))
        staged: list[StagedFile] = []
        for number, ((_, mark), rows) in enumerate(rows_of.items()):
            elements, timestamps = zip(*rows, strict=True)
            parts = self._files.write_parts(Batch(elements, timestamps), epoch, interval, f"{token}-{number}")
            staged += [part._replace(mark=mark) for part in parts]
        return self._files.receipt(staged) if staged else None

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """See `EpochFileSink.deliver`."""
        self._files.deliver(epoch, receipts)

    def finish(self, epoch: int, ended: bool) -> None:
        """See `EpochFileSink.finish`."""
        self._files.finish(epoch, ended)
