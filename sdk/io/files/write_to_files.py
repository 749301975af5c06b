"""What: elements written to files of any format, by destination (`apache_beam.io.fileio.WriteToFiles`).

Tasks write temporary files. Their final names are chosen and committed before any file is renamed, so that a step which
is repeated after a crash renames the same files to the same names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from os import fspath
from typing import BinaryIO, NamedTuple, TypeAlias, cast
from uuid import NAMESPACE_URL, uuid4, uuid5
from zlib import crc32

from headrace.lowlevel.stored_names import named, stored_as
from headrace.options.pipeline_options import checkpoint_of
from headrace.options.value_provider import StaticValueProvider, ValueProvider
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import BasePipeline, PCollection
from headrace.sdk.graph.side_inputs import AsList
from headrace.sdk.io.files.durable_files import folder_of, keep_files, make_folders, moved, sync_names
from headrace.sdk.io.files.file_naming import FileNaming, default_file_naming, is_one_for_all, tells_files_apart
from headrace.sdk.io.files.filesystem import CompressionTypes, Path, absolute, filesystem_of, same_folder
from headrace.sdk.io.files.filesystems import FileSystems
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.special_outputs import TaggedOutput, WindowedValue
from headrace.sdk.transforms.core.create import CreateKnownBy
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import FlatMap, Map, ParDo
from headrace.sdk.transforms.core.stable_input import Held, StableParDo
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.typehints.io_type_hints import with_input_types
from headrace.sdk.userstate.value_states import ReadModifyWriteState, ReadModifyWriteStateSpec
from headrace.sdk.windows import BoundedWindow, GlobalWindows

Collection = PCollection[object]
_log = logging.getLogger(__name__)
_SPILLED = "spilled"
_MOST = 1_000_000


class FileMetadata(NamedTuple):
    """How a file is made: what `FileSink.create_metadata` returns.

    >>> FileMetadata("text/plain", CompressionTypes.GZIP).compression_type
    'gzip'
    """

    mime_type: str
    """Without effect."""
    compression_type: str
    """One of `CompressionTypes`."""


class FileSink:
    """Writes elements to a file of `WriteToFiles`. Subclass it and define `open`, `write` and `flush`.

    >>> class Hex(FileSink):
    ...     def open(self, fh):
    ...         self._file = fh
    ...     def write(self, record):
    ...         self._file.write(b"%x" % record)
    ...     def flush(self):
    ...         self._file.flush()
    """

    def create_metadata(self, destination: object, full_file_name: str) -> FileMetadata:
        """How the file is made; by default, compressed as the suffix of its temporary name states: not at all."""
        return FileMetadata("application/octet-stream", CompressionTypes.AUTO)

    def open(self, fh: BinaryIO) -> None:
        """Begin a file, which is open already and will be closed by others."""
        raise TypeError(f"{type(self).__name__} does not define open(self, fh)")

    def write(self, record: object) -> None:
        """Write an element."""
        raise TypeError(f"{type(self).__name__} does not define write(self, record)")

    def flush(self) -> None:
        """Write what is buffered; the file is closed afterwards."""
        raise TypeError(f"{type(self).__name__} does not define flush(self)")


@with_input_types(str)
class TextSink(FileSink):
    """Writes text elements as lines in UTF-8.

    >>> isinstance(TextSink(), FileSink)
    True
    """

    def open(self, fh: BinaryIO) -> None:
        """See `FileSink`."""
        self._fh = fh

    def write(self, record: object) -> None:
        """See `FileSink`."""
        self._fh.write(cast(str, record).encode())
        self._fh.write(b"\n")

    def flush(self) -> None:
        """See `FileSink`."""
        self._fh.flush()


@stored_as("FileResult")
class FileResult(NamedTuple):
    """A file that was written.

    >>> from headrace.transforms.window import GlobalWindow
    >>> FileResult("red.txt", 0, 1, GlobalWindow(), None, "red").file_name
    'red.txt'
    """

    file_name: str
    """Its name below the path of `WriteToFiles`."""
    shard_index: int
    """Its number among the files of a destination and window, from 0."""
    total_shards: int
    window: BoundedWindow
    pane: PaneInfo | None
    """None for a file that was written before any grouping."""
    destination: object


_SinkFn: TypeAlias = Callable[[object], FileSink]
_Renaming: TypeAlias = tuple[str, str, FileResult]
"""A temporary file, its final path, and the result."""


class WriteToFiles(PTransform[Collection, PCollection[FileResult]]):
    """Writes elements to files by destination, with a format and names of one's own; the output is a `FileResult` each.

    A file appears under its final name when the epoch that names it is committed, exactly once: a run that crashes and
    goes on from its checkpoint leaves the same files. If the input has an end, the temporary directory is removed then.
    No file of a run replaces another one of it: the functions of this package name a further pane of a window, and a
    name that a function gives twice stops the run before the second file is written. For that, the names of all files
    are state of the run, unless the names certainly differ: with one destination, a function of this package, and
    fixed, sliding or global windows.

    Args:
        path: Folder of the files; a path, a URL or a `ValueProvider`.
        file_naming: Function that names files, such as those of `default_file_naming`, `destination_prefix_naming` and
            `single_file_naming`; by default `default_file_naming("output")`. It gets the window and pane of the files,
            the number of a file among those of a destination and pane and their number, and the destination.
        destination: Function from an element to its destination, or one destination for all. Each destination has files
            of its own in each window.
        temp_directory: Folder for temporary files, on the file system of `path`; by default a folder in `path`.
        sink: A `FileSink`, its class, or a function from a destination to a `FileSink`; by default `TextSink`.
        shards: Number of files of a destination and pane for elements that do not get files in their bundle.
        output_fn: Without effect, as in Beam.
        max_writers_per_bundle: How many files a bundle writes at once. Elements of further destinations are grouped by
            destination and shard first; with 0, all elements are.

    Raises:
        TypeError: `path` is no path, or `sink` or `file_naming` cannot be called.
        ValueError: `shards` or `max_writers_per_bundle` is out of range.

    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> from headrace.io.fileio import destination_prefix_naming
    >>> def team(line):
    ...     return line.split()[0]
    >>> with TemporaryDirectory() as folder, beam.Pipeline("LocalRunner") as pipeline:
    ...     lines = pipeline | beam.Create(["red 5", "red 7"])
    ...     files = lines | WriteToFiles(folder, destination_prefix_naming(".txt"), team)
    ...     _ = files | beam.Map(lambda file: print(file.file_name))
    red-00000-of-00001.txt
    """

    MAX_NUM_WRITERS_PER_BUNDLE = 20
    DEFAULT_SHARDING = 5

    def __init__(
        self,
        path: Path | ValueProvider,
        file_naming: FileNaming | None = None,
        destination: object = None,
        temp_directory: Path | ValueProvider | None = None,
        sink: FileSink | _SinkFn | None = None,
        shards: int | None = None,
        output_fn: Callable[[object], object] | None = None,
        max_writers_per_bundle: int = MAX_NUM_WRITERS_PER_BUNDLE,
    ) -> None:
        super().__init__()
        if file_naming is not None and not callable(file_naming):
            raise TypeError(f"file_naming is {file_naming!r:.200}; give a function, such as default_file_naming('out')")
        if shards is not None and shards not in range(_MOST):
            raise ValueError(f"shards is {shards!r:.200}; give a whole number, None or 0 for {self.DEFAULT_SHARDING}")
        if max_writers_per_bundle not in range(_MOST):
            raise ValueError(f"max_writers_per_bundle is {max_writers_per_bundle!r:.200}; give a whole number from 0")
        self.path = _place(path)
        self._temp_directory = None if temp_directory is None else _place(temp_directory)
        self.file_naming_fn = file_naming or default_file_naming("output")
        self.destination_fn = _destination_fn(destination)
        self._has_destinations = callable(destination)
        self.sink_fn = _sink_fn(sink)
        self.shards = shards or self.DEFAULT_SHARDING
        self._most = max_writers_per_bundle

    def expand(self, inputs: Collection) -> PCollection[FileResult]:
        """The files, when they have their final names. Raises `ValueError` if another step gives the same names."""
        self._check_clashes(inputs)
        temporary = self._temporary(inputs.pipeline)
        in_bundles = ParDo(_WriteBundle(temporary, self.destination_fn, self.sink_fn, self._most))
        outputs = inputs | "WriteBundles" >> in_bundles.with_outputs(_SPILLED, main="written")
        sharded = outputs[_SPILLED] | "Shard" >> ParDo(_ShardOfDestination(self.destination_fn, self.shards))
        in_shards = (
            sharded | "GroupByShard" >> GroupByKey() | "WriteShards" >> ParDo(_WriteShard(temporary, self.sink_fn))
        )
        written = (outputs["written"], in_shards) | Flatten()
        grouped = written | "ByDestination" >> Map(_by_destination) | "GroupByDestination" >> GroupByKey()
        renamings = grouped | "Name" >> Map(_named, self.path, self.file_naming_fn)
        if self._has_destinations or not tells_files_apart(self.file_naming_fn, inputs.windowing.window_fn):
            finals = renamings | "Final" >> FlatMap(_final_names) | "AnyWindow" >> WindowInto(GlobalWindows())
            _ = finals | "NoNameTwice" >> ParDo(_NoNameTwice())
        results = renamings | "Rename" >> StableParDo(_Rename())
        if inputs.is_bounded:
            _clean_up(temporary, renamings, results)
        return cast("PCollection[FileResult]", results)

    def _check_clashes(self, inputs: Collection) -> None:
        label = inputs.pipeline.current_label
        if not is_one_for_all(self.file_naming_fn) or not isinstance(self.path, StaticValueProvider):
            return
        for step in inputs.pipeline.steps:
            other = step.transform
            if isinstance(other, WriteToFiles) and step.full_label != label and self._is_as(other, inputs, step.inputs):
                raise ValueError(
                    f"steps {step.full_label!r} and {label!r} both write files with the same names to "
                    f"{self.path.get()}, so that one would replace the other's; give one of them another folder or name"
                )

    def _is_as(self, other: WriteToFiles, inputs: Collection, others: Sequence[object]) -> bool:
        """Whether another step writes files in the same folder, with the same names, of the same windows."""
        if other.file_naming_fn != self.file_naming_fn or not isinstance(other.path, StaticValueProvider):
            return False
        same_window = [
            each
            for each in others
            if isinstance(each, PCollection) and each.windowing.window_fn == inputs.windowing.window_fn
        ]
        return bool(same_window) and same_folder(str(other.path.get()), str(self.path.get()))

    def _temporary(self, pipeline: BasePipeline) -> ValueProvider:
        """The temporary directory; the same one when the program goes on from its checkpoint."""
        if self._temp_directory is not None:
            return self._temp_directory
        checkpoint = checkpoint_of(pipeline.options)
        of_step = f"{checkpoint}\n{pipeline.current_label}"
        name = f".temp{uuid4() if checkpoint is None else uuid5(NAMESPACE_URL, of_step)}"
        return StaticValueProvider(str, FileSystems.join(str(self.path.get()), name))


def _place(path: Path | ValueProvider) -> ValueProvider:
    """A path as a value provider; a relative one is resolved here, as workers may have another working directory."""
    if isinstance(path, ValueProvider):
        return path
    try:
        return StaticValueProvider(str, absolute(fspath(path)))
    except TypeError:
        raise TypeError(f"files are written below a path, got {path!r:.200}; give a folder") from None


def _destination_fn(destination: object) -> Callable[[object], object]:
    if isinstance(destination, ValueProvider):
        return lambda element: destination.get()
    return destination if callable(destination) else lambda element: destination


def _sink_fn(sink: FileSink | _SinkFn | None) -> _SinkFn:
    if sink is None:
        return lambda destination: TextSink()
    kind = sink if isinstance(sink, type) else type(sink)
    if issubclass(kind, FileSink):
        return lambda destination: kind()
    if not callable(sink):
        raise TypeError(f"sink is {sink!r:.200}; give a FileSink, or a function from a destination to a FileSink")
    return sink


class _TemporaryFile:
    """A temporary file that is being written."""

    def __init__(self, folder: str, destination: object, sink_fn: _SinkFn) -> None:
        self.path = FileSystems.join(folder, uuid4().hex)
        self.sink = sink_fn(destination)
        made = self.sink.create_metadata(destination, self.path)
        self._file = FileSystems.create(self.path, made.mime_type, made.compression_type)
        self.sink.open(self._file)

    def complete(self) -> str:
        """Close the file; its path, when it is durable."""
        self.sink.flush()
        self._file.close()
        system, path = filesystem_of(self.path)
        keep_files(system, [path])
        return self.path


@named("WriteBundle")
class _WriteBundle(DoFn):
    """Writes the elements of a bundle, each destination and window to a file, as far as that many may be open."""

    def __init__(
        self, folder: ValueProvider, destination_fn: Callable[[object], object], sink_fn: _SinkFn, most: int
    ) -> None:
        self._folder, self._destination_fn, self._sink_fn, self._most = folder, destination_fn, sink_fn, most

    def start_bundle(self) -> None:
        """See `DoFn`."""
        self._files: dict[tuple[object, BoundedWindow], _TemporaryFile] = {}

    def process(self, element: object, window: BoundedWindow = DoFn.WindowParam) -> list[object] | None:
        """The element itself, with a tag, if no file is open for it."""
        key = self._destination_fn(element), window
        if key not in self._files:
            if len(self._files) >= self._most:
                return [TaggedOutput(_SPILLED, element)]
            self._files[key] = _TemporaryFile(str(self._folder.get()), key[0], self._sink_fn)
        self._files[key].sink.write(element)
        return None

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """The files of the bundle."""
        for (destination, window), file in self._files.items():
            result = FileResult(file.complete(), -1, 0, window, None, destination)
            yield WindowedValue(result, window.max_timestamp(), [window])


@named("ShardOfDestination")
class _ShardOfDestination(DoFn):
    """Assigns the shards of a destination to its elements in turn."""

    def __init__(self, destination_fn: Callable[[object], object], shards: int) -> None:
        self._destination_fn, self._shards = destination_fn, shards

    def start_bundle(self) -> None:
        """Begin anew, so that a repeated bundle assigns equal shards."""
        self._next: dict[object, count[int]] = {}

    def process(self, element: object) -> list[tuple[tuple[object, int], object]]:
        """The element with its destination and shard."""
        destination = self._destination_fn(element)
        if destination not in self._next:
            # Many bundles have one element; they begin with different shards.
            self._next[destination] = count(crc32(repr(element).encode()))
        number = next(self._next[destination])
        return [((destination, number % self._shards), element)]


@named("WriteShard")
class _WriteShard(DoFn):
    """Writes the elements of a shard to a file."""

    def __init__(self, folder: ValueProvider, sink_fn: _SinkFn) -> None:
        self._folder, self._sink_fn = folder, sink_fn

    def process(
        self,
        element: tuple[tuple[object, int], Iterable[object]],
        window: BoundedWindow = DoFn.WindowParam,
        pane: PaneInfo = DoFn.PaneInfoParam,
    ) -> Iterator[FileResult]:
        """The file."""
        (destination, shard), records = element
        file = _TemporaryFile(str(self._folder.get()), destination, self._sink_fn)
        for record in records:
            file.sink.write(record)
        yield FileResult(file.complete(), shard, 0, window, pane, destination)


def _by_destination(result: FileResult) -> tuple[object, FileResult]:
    return result.destination, result


def _named(
    of_destination: tuple[object, Iterable[FileResult]],
    path: ValueProvider,
    naming: FileNaming,
    pane: PaneInfo = DoFn.PaneInfoParam,
) -> list[_Renaming]:
    """The files of a destination in a pane with their final names."""
    destination, results = of_destination
    files = list(results)
    renamings = []
    for number, file in enumerate(files):
        name = naming(file.window, pane, number, len(files), "", destination)
        result = file._replace(file_name=name, shard_index=number, total_shards=len(files))
        renamings.append((file.file_name, FileSystems.join(str(path.get()), name), result))
    return renamings


def _final_names(renamings: Iterable[_Renaming]) -> Iterator[tuple[str, str]]:
    for _, final, result in renamings:
        shard = f"file {result.shard_index} of {result.total_shards}"
        yield final, f"{shard} of destination {result.destination!r:.80} in {result.window!r:.120}"


@named("NoNameTwice")
class _NoNameTwice(DoFn):
    """Refuses a second file with a name."""

    FIRST = ReadModifyWriteStateSpec("first")

    def process(
        self, named_file: tuple[str, str], first: ReadModifyWriteState = DoFn.StateParam(FIRST)
    ) -> Iterator[object]:
        """Note the name, or raise `ValueError`."""
        name, file = named_file
        if (before := first.read()) is not None:
            raise ValueError(
                f"file_naming gives the name {name} to two files of this run, so that one would replace the other: "
                f"{before}, and {file}; let the names tell windows, panes, shards and destinations apart"
            )
        first.write(file)
        return iter(())


@named("RenameFiles")
class _Rename(DoFn):
    """Gives temporary files their final names, unless an earlier attempt has done it."""

    def process(self, element: object) -> Iterator[WindowedValue]:
        """The files."""
        value, _ = cast(Held, element)
        renamings = cast("list[_Renaming]", value.value)
        for temporary, final, result in renamings:
            _rename(temporary, final)
            yield value.with_value(result)


def _rename(temporary: str, final: str) -> None:
    (system, source), (_, target) = filesystem_of(temporary), filesystem_of(final)
    make_folders(system, [folder_of(target)])
    if not moved(system, source, target) and not FileSystems.exists(final):
        _log.warning(
            "there is neither the temporary file %s nor %s, which it was to become: unless a reader has taken that, "
            "somebody has cleaned the folder of temporary files, and rows are lost",
            *(temporary, final),
        )
    sync_names(system, {folder_of(source), folder_of(target)})


def _clean_up(temporary: ValueProvider, renamings: Collection, results: Collection) -> None:
    """Remove the temporary directory when the input has ended; files of lost attempts may be in it."""
    written = renamings | "Temporary" >> FlatMap(_temporary_files) | "AtEnd" >> WindowInto(GlobalWindows())
    renamed = results | "RenamedAtEnd" >> WindowInto(GlobalWindows())
    start = results.pipeline | "Directory" >> CreateKnownBy([temporary], [None])
    _ = start | "RemoveDirectory" >> Map(_remove_directory, AsList(written), AsList(renamed))


def _temporary_files(renamings: Iterable[_Renaming]) -> list[str]:
    return [temporary for temporary, _, _ in renamings]


def _remove_directory(directory: ValueProvider, written: Iterable[str], renamed: object) -> None:
    path = str(directory.get())
    if FileSystems.exists(path) and not any(map(FileSystems.exists, written)):
        FileSystems.delete([path])
