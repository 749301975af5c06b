"""Translation of writes to files, `iobase.WriteImpl` and `fileio.WriteToFiles`: exactly the same files after a crash.

Beam's steps are kept. What they draw at random, and what decides on names of files, is committed before files get these
names; temporary directories follow from checkpoint and step, so that those of a lost attempt are found and removed.
"""

from __future__ import annotations

import copy
import re
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from apache_beam.io import fileio, iobase
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.value_provider import StaticValueProvider
from apache_beam.pipeline import AppliedPTransform

from headrace.options.pipeline_options import checkpoint_of
from headrace.runners.beam.beam_private import MoveTemporaryFiles, MultiParDo, WriteRecords, temporary_directory
from headrace.runners.beam.functions.do_fns import BeamDoFn, BeamView
from headrace.runners.beam.io.file_writes import (
    NamesOfPanes,
    SinkOfBundles,
    TemporaryDirectory,
    directory_of,
    has_plain_directory,
    remove_directory,
    repeatable,
)
from headrace.runners.beam.io.stable_input import StableDoFn
from headrace.runners.beam.translation import Rule, Translation
from headrace.sdk.graph.side_inputs import AsList
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.par_do import FlatMap, Map, ParDo
from headrace.sdk.transforms.core.stable_input import StableParDo


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
    sides = []
    for side in step.side_inputs:
        view = AsList(made.collection(side.pvalue))
        view.make = BeamView(side)  # type: ignore[method-assign]  # it is called as a function
        sides.append(view)
    made.put(step, made.source(step) | step.full_label >> StableParDo(fn, *sides))


# fileio.WriteToFiles


def _write_to_files(made: Translation, step: AppliedPTransform) -> None:
    directory = _directory_of_step(made, step)
    if directory is None:
        _write_parts(made, step, None)
    else:
        _write_parts(made, step, StaticValueProvider(str, directory))


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


def _directory_of_step(made: Translation, step: AppliedPTransform) -> str | None:
    """The directory for temporary files, beside the one that Beam has named; None if its place is not known yet."""
    place = temporary_directory(step.transform)
    if not isinstance(place, (str, StaticValueProvider)):
        return None
    path = place if isinstance(place, str) else place.get()
    # Beam puts a directory with a name drawn at random below the output's, unless the program gives a directory.
    below = re.sub(r"\.temp[0-9a-f-]{36}$", "", path)
    return str(FileSystems.join(below, f".temp{_identity(made, step)}"))


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
    start = made.pipeline | f"{label}/Start" >> Create([directory])
    _ = start | label >> Map(remove_directory, AsList(written), AsList(moved))


def _names_of_files(of_destination: tuple[object, list[fileio.FileResult]]) -> list[str]:
    return [result.file_name for result in of_destination[1]]


RULES: dict[type, Rule] = {
    iobase.WriteImpl: _write,
    fileio.WriteToFiles: _write_to_files,
}
