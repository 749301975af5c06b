"""Translation of writes to files, `iobase.WriteImpl` and `fileio.WriteToFiles`: exactly the same files after a crash.

Beam's steps are kept, and a DoFn that writes receives committed elements only. What the steps draw at random, and what
decides on names of files, is committed before files get these names, so the names are the same whenever a step is
repeated; temporary directories follow from checkpoint and step, so that those of a lost attempt are found and removed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from apache_beam.io import fileio, iobase
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.value_provider import StaticValueProvider
from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import PaneInfo

from headrace.lowlevel.stored_names import named
from headrace.options.pipeline_options import checkpoint_of
from headrace.runners.beam.beam_private import (
    MoveTemporaryFiles,
    MultiParDo,
    Renames,
    WriteRecords,
    drawn_directory,
    draws_directory,
    final_name,
    finalizes_as_usual,
    rename_by,
    report_lineage,
    temporary_directory,
)
from headrace.runners.beam.functions.do_fns import BeamDoFn, BeamView
from headrace.runners.beam.rules.par_do import BeamSideInput
from headrace.runners.beam.translation import Rule, Translation
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.side_inputs import AsList
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.transforms.core.create import CreateKnownBy
from headrace.sdk.transforms.core.par_do import FlatMap, Map, ParDo
from headrace.sdk.transforms.core.stable_input import Held, StableParDo

_HEX = 32
"""Digits at the end of the name of a sink's temporary directory, which Beam draws at random."""


def has_plain_directory(sink: iobase.Sink) -> bool:
    """Whether a sink makes its temporary directory as `FileBasedSink` does, below a path that is known already."""
    if not isinstance(sink, FileBasedSink) or not sink.file_path_prefix.is_accessible():
        return False
    kind = type(sink)
    return kind.initialize_write is FileBasedSink.initialize_write and draws_directory(kind)


def directory_of(sink: FileBasedSink, identity: UUID, part: str = "") -> str:
    """The temporary directory of a sink for a part of the input, such as a pane; always the same one."""
    return drawn_directory(sink)[:-_HEX] + uuid5(identity, part).hex


@dataclass(frozen=True, slots=True)
class NamesOfPanes:
    """A function that names files of `fileio.WriteToFiles` so that those of a further pane of a window replace none.

    Beam's functions name windows only.
    """

    naming: Callable[..., str]

    def __call__(self, w: window.BoundedWindow, pane: PaneInfo | None, *rest: object) -> str:
        """The name of a file; with the pane in it if it would have the same name in another pane."""
        name = self.naming(w, pane, *rest)
        if not PANE.get():
            return name
        if pane is not None:
            other = PaneInfo(pane.is_first, pane.is_last, pane.timing, pane.index + 1, pane.nonspeculative_index)
            if self.naming(w, other, *rest) != name:
                return name
        end = re.search(r"(\.\w+)*$", name)
        assert end is not None, "it matches nothing, too"
        return f"{name[: end.start()]}{_of_pane()}{end[0]}"


def _of_pane() -> str:
    """What tells the files of a further pane of a window from those of the first."""
    return f"-pane-{index}" if (index := PANE.get()) else ""


@named("BeamTemporaryDirectory")
class TemporaryDirectory(DoFn):
    """Makes the temporary directory of a sink; an element -> its path.

    Args:
        sink: The sink.
        identity: What tells this write from others.
        each_pane: Whether each pane has a directory of its own.
    """

    def __init__(self, sink: FileBasedSink, identity: UUID, each_pane: bool) -> None:
        self._sink, self._identity, self._each_pane = sink, identity, each_pane

    def process(self, element: object, value: WindowedValue = DoFn.WindowedValueParam) -> Iterator[str]:
        """The path of the directory."""
        part = f"{value.windows} {value.pane_info.index}" if self._each_pane else ""
        path = directory_of(self._sink, self._identity, part)
        _make_directory(path)
        yield path


class SinkOfBundles:
    """The part of a file sink that writes bundles, which makes the temporary directory if there is none yet.

    A bundle does not wait for the step that makes the directory; and a sink may write with a library that makes none.
    """

    def __init__(self, sink: FileBasedSink) -> None:
        self._sink = sink

    def open_writer(self, init_result: str, uid: str) -> iobase.Writer:
        """See `FileBasedSink`."""
        _make_directory(init_result)
        return self._sink.open_writer(init_result, uid)


def _make_directory(path: str) -> None:
    """Make a directory unless it exists."""
    try:
        FileSystems.mkdirs(path)
    except OSError:
        if not FileSystems.exists(path):
            raise


class _NamesOfResults(str):
    """A format of shard names in which the unique part follows from the temporary file."""

    results: Sequence[str]

    def __mod__(self, fields: Any) -> str:
        unique = uuid5(NAMESPACE_URL, self.results[fields["shard_num"]])
        return super().__mod__({**fields, "uuid": unique})


class RepeatableSink:
    """The part of a file sink that finalizes a write, with the same effects and outputs if it is done again.

    Beam's sink renames what is not renamed yet. The names of shards and of added empty files must not change for that;
    and files that an earlier attempt has renamed are outputs, too.
    """

    def __init__(self, sink: FileBasedSink) -> None:
        self._sink = sink
        self._added = 0

    @property
    def skip_if_empty(self) -> bool:
        """See `FileBasedSink`."""
        return bool(self._sink.skip_if_empty)

    def open_writer(self, init_result: str, uid: str) -> iobase.Writer:
        """A writer of an added, empty shard."""
        self._added += 1
        return self._sink.open_writer(init_result, str(uuid5(NAMESPACE_URL, f"{init_result} {self._added}")))

    def finalize_write(self, init_result: str, results: Iterable[str], pre_finalized: object) -> list[str]:
        """See `FileBasedSink`; the names of all files."""
        return self.finalize_windowed_write(init_result, results, pre_finalized, None)

    def finalize_windowed_write(
        self, init_result: str, results: Iterable[str], pre_finalized: object, w: window.BoundedWindow | None
    ) -> list[str]:
        """See `FileBasedSink`; the names of all files."""
        self._added = 0
        names, sink = sorted(results), copy.copy(self._sink)
        sink.shard_name_format = _NamesOfResults(sink.shard_name_format)
        sink.shard_name_format.results = names
        sink.file_name_suffix = StaticValueProvider(str, f"{_of_pane()}{sink.file_name_suffix.get()}")
        rename_by(sink, partial(_to_be_renamed, sink))
        for _ in sink.finalize_windowed_write(init_result, names, pre_finalized, w):
            pass
        return [final_name(sink, number, len(names), w) for number in range(len(names))]


def _to_be_renamed(sink: FileBasedSink, names: Sequence[str], count: int, w: window.BoundedWindow | None) -> Renames:
    """The files that are not renamed yet.

    Beam's own method looks for new names by a pattern, which finds none with windows or unique parts in them.

    Raises:
        BeamIOError: A file exists under neither name.
    """
    if not names:
        return [], [], [], 0
    [matched] = FileSystems.match([FileSystems.join(FileSystems.split(names[0])[0], "*")])
    existing = {file.path for file in matched.metadata_list}
    new_names = {name: final_name(sink, number, count, w) for number, name in enumerate(names)}
    for name, new_name in new_names.items():
        if name not in existing and not FileSystems.exists(new_name):
            raise BeamIOError(f"there is neither the temporary file {name} nor {new_name}, which it was to become")
    left = [name for name in names if name in existing]
    renamed = [new_names[name] for name in left]
    report_lineage(sink, count, renamed, w)
    return left, renamed, [], len(names) - len(left)


def repeatable(sink: iobase.Sink) -> iobase.Sink | RepeatableSink:
    """A sink for finalization; the sink itself if it has a way of its own."""
    usual = isinstance(sink, FileBasedSink) and finalizes_as_usual(type(sink))
    return RepeatableSink(sink) if usual else sink


def remove_directory(directory: str, written: Iterable[str], moved: object) -> None:
    """Remove a directory of temporary files, unless one that was written was not moved away.

    Args:
        directory: The directory.
        written: Paths of the files that were to be moved.
        moved: Something that is complete when the files are moved.
    """
    if FileSystems.exists(directory) and not any(map(FileSystems.exists, written)):
        FileSystems.delete([directory])


PANE: ContextVar[int] = ContextVar("pane", default=0)
"""The index of the pane of the element that a `StableDoFn` processes."""


@named("BeamStableDoFn")
class StableDoFn(BeamDoFn):
    """A DoFn of Beam's SDK for a `StableParDo`."""

    def process(  # type: ignore[override]  # without side values
        self, element: object, value: WindowedValue = DoFn.WindowedValueParam
    ) -> Iterable[object] | None:
        """Outputs of an element."""
        given, sides = cast(Held, element)
        PANE.set(given.pane_info.index)
        return super().process(given.value, *sides, value=given)


def _identity(made: Translation, step: AppliedPTransform) -> UUID:
    """What tells a write from all others, and is the same when the program goes on from its checkpoint."""
    checkpoint = checkpoint_of(made.pipeline.options)
    return uuid4() if checkpoint is None else uuid5(NAMESPACE_URL, f"{checkpoint}\n{step.full_label}")


# Beam's sinks


def _write(made: Translation, step: AppliedPTransform) -> None:
    sink, identity = step.transform.sink, _identity(made, step)
    for part in step.parts:
        name = part.full_label.removeprefix(f"{step.full_label}/")
        if name == "FinalizeWrite":
            _stable(made, _with_sink(part, repeatable(sink)))
        elif not has_plain_directory(sink):
            made.translate(part)
        elif name in ("InitializeWrite", "InitializeWindowedWrite"):
            directory = TemporaryDirectory(sink, identity, each_pane=name == "InitializeWindowedWrite")
            made.put(part, made.source(part) | part.full_label >> ParDo(directory))
        elif name == "WriteBundles":
            _write_bundles(made, part, directory_of(sink, identity))
        else:
            made.translate(part)


def _with_sink(part: AppliedPTransform, sink: object) -> AppliedPTransform:
    """A step with another sink, its first further argument."""
    part = copy.copy(part)
    part.transform = copy.copy(part.transform)
    part.transform.args = (sink, *part.transform.args[1:])
    return part


def _write_bundles(made: Translation, part: AppliedPTransform, directory: str) -> None:
    """Write into a directory that is known, so that no element waits until the directory was made."""
    windowing, written = part.outputs[None].windowing, _with_fn(part, sink=SinkOfBundles(part.transform.fn.sink))
    fn = BeamDoFn(written.transform.fn, (directory,), {}, 0, windowing, (), part.full_label)
    made.put(part, made.source(part) | part.full_label >> ParDo(fn))


def _stable(made: Translation, step: AppliedPTransform) -> None:
    """Add a `ParDo` with one output that receives committed elements only."""
    transform, windowing = step.transform, step.outputs[None].windowing
    fn = StableDoFn(
        transform.fn, transform.args, transform.kwargs, len(step.side_inputs), windowing, (), step.full_label
    )
    sides = [BeamSideInput(made.collection(side.pvalue), BeamView(side)) for side in step.side_inputs]
    made.put(step, made.source(step) | step.full_label >> StableParDo(fn, *sides))


# fileio.WriteToFiles


def _write_to_files(made: Translation, step: AppliedPTransform) -> None:
    _write_parts(made, step, _directory_of_step(made, step))


def _write_parts(made: Translation, step: AppliedPTransform, directory: StaticValueProvider | None) -> None:
    for part in step.parts:
        fn = getattr(part.transform, "fn", None)
        if isinstance(fn, MoveTemporaryFiles):
            naming = NamesOfPanes(fn.file_naming_fn)
            _stable(made, _with_fn(part, temporary_directory=directory, file_naming_fn=naming))
            if directory is not None and made.source(part).is_bounded:
                _clean_up(made, part, directory.get())
        elif isinstance(fn, WriteRecords):
            made.translate(_with_fn(part, base_path=directory))
        elif type(part.transform) is MultiParDo:
            _write_parts(made, part, directory)
        else:
            made.translate(part)


def _directory_of_step(made: Translation, step: AppliedPTransform) -> StaticValueProvider | None:
    """The directory for temporary files, beside the one that Beam has named; None if its place is not known yet."""
    place = temporary_directory(step.transform)
    if not isinstance(place, (str, StaticValueProvider)):
        return None
    path = place if isinstance(place, str) else place.get()
    # Beam puts a directory with a name drawn at random below the output's, unless the program gives a directory.
    below = re.sub(r"\.temp[0-9a-f-]{36}$", "", path)
    return StaticValueProvider(str, FileSystems.join(below, f".temp{_identity(made, step)}"))


def _with_fn(part: AppliedPTransform, **attributes: object) -> AppliedPTransform:
    """A step whose DoFn has other attributes, where they are not None."""
    part = copy.copy(part)
    part.transform = copy.copy(part.transform)
    part.transform.fn = copy.copy(part.transform.fn)
    vars(part.transform.fn).update({name: value for name, value in attributes.items() if value is not None})
    return part


def _clean_up(made: Translation, move: AppliedPTransform, directory: str) -> None:
    """Remove the directory when all files are moved; files of lost attempts may be in it."""
    label = f"{move.full_label}/CleanUp"
    written = made.source(move) | f"{label}/Written" >> FlatMap(_names_of_files)
    moved = made.collection(move.outputs[None])
    start = made.pipeline | f"{label}/Start" >> CreateKnownBy([directory], [None])
    _ = start | label >> Map(remove_directory, AsList(written), AsList(moved))


def _names_of_files(of_destination: tuple[object, list[fileio.FileResult]]) -> list[str]:
    return [result.file_name for result in of_destination[1]]


RULES: dict[type, Rule] = {
    iobase.WriteImpl: _write,
    fileio.WriteToFiles: _write_to_files,
}
