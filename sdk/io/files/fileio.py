"""What: files as elements, found by patterns and read in a function (`apache_beam.io.fileio`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.io.files.filesystem import CompressionTypes
from headrace.sdk.io.files.filesystems import BeamIOError, FileMetadata, FileSystems
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.par_do import FlatMap
from headrace.sdk.transforms.core.reshuffle import Reshuffle


class EmptyMatchTreatment:
    """What a pattern means that matches no file.

    >>> EmptyMatchTreatment.allow_empty_match("scores/*.csv", EmptyMatchTreatment.ALLOW_IF_WILDCARD)
    True
    >>> EmptyMatchTreatment.allow_empty_match("scores.csv", EmptyMatchTreatment.ALLOW_IF_WILDCARD)
    False
    """

    ALLOW = "ALLOW"
    """There is nothing to read."""
    DISALLOW = "DISALLOW"
    """It is an error."""
    ALLOW_IF_WILDCARD = "ALLOW_IF_WILDCARD"
    """It is an error unless the pattern contains `*`."""

    @staticmethod
    def allow_empty_match(pattern: str, setting: str) -> bool:
        """Whether a pattern may match no file. Raises `ValueError` for another setting."""
        if setting not in ("ALLOW", "DISALLOW", "ALLOW_IF_WILDCARD"):
            raise ValueError(f"{setting!r} is no treatment of empty matches; use one of EmptyMatchTreatment")
        return setting == "ALLOW" or (setting == "ALLOW_IF_WILDCARD" and "*" in pattern)


@stored_as("ReadableFile")
@dataclass(frozen=True, slots=True)
class ReadableFile:
    """A file that a function can open.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     ReadableFile(FileMetadata(f"{folder}/scores.txt", 5)).read_utf8()
    'red 5'
    """

    metadata: FileMetadata
    compression: str | None = None
    """One of `CompressionTypes`; None for what the name of the file says."""

    def open(self, mime_type: str = "text/plain", compression_type: str | None = None) -> BinaryIO:
        """The file, opened for reading its decompressed bytes."""
        compression = compression_type or self.compression or CompressionTypes.AUTO
        return FileSystems.open(self.metadata.path, mime_type, compression)

    def read(self, mime_type: str = "application/octet-stream") -> bytes:
        """The contents of the file."""
        with self.open(mime_type) as file:
            return file.read()

    def read_utf8(self) -> str:
        """The contents of a text file in UTF-8."""
        return self.read().decode()


class MatchAll(PTransform[PCollection[str], PCollection[FileMetadata]]):
    """The files of each pattern, as `FileMetadata`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         files = pipeline | beam.Create([f"{folder}/*.txt", f"{folder}/*.csv"]) | MatchAll()
    ...         _ = files | beam.Map(lambda file: print(Path(file.path).name, file.size_in_bytes))
    scores.txt 5

    Args:
        empty_match_treatment: What a pattern means that matches no file; see `EmptyMatchTreatment`.
    """

    def __init__(self, empty_match_treatment: str = EmptyMatchTreatment.ALLOW) -> None:
        super().__init__()
        EmptyMatchTreatment.allow_empty_match("", empty_match_treatment)
        self._treatment = empty_match_treatment

    def expand(self, inputs: PCollection[str]) -> PCollection[FileMetadata]:
        """Look for files when a pattern comes. Raises `BeamIOError` then for an empty match that is not allowed."""
        found = inputs | "Match" >> FlatMap(matching, self._treatment).with_output_types(FileMetadata)
        return cast("PCollection[FileMetadata]", found)


def matching(pattern: str, treatment: str) -> list[FileMetadata]:
    """The files of a pattern. Raises `BeamIOError` if there are none and the treatment does not allow that."""
    [result] = FileSystems.match([pattern])
    if not result.metadata_list and not EmptyMatchTreatment.allow_empty_match(pattern, treatment):
        raise BeamIOError(f"no file matches {pattern!r}, which empty_match_treatment={treatment!r} does not allow")
    return result.metadata_list


class MatchFiles(PTransform[PBegin, PCollection[FileMetadata]]):
    """The files of a pattern, as `FileMetadata`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         files = pipeline | MatchFiles(f"{folder}/*.txt")
    ...         _ = files | beam.Map(lambda file: print(Path(file.path).name, file.size_in_bytes))
    scores.txt 5

    Args:
        file_pattern: The pattern; see `FileSystems.match`.
        empty_match_treatment: What it means if no file matches; see `EmptyMatchTreatment`.
    """

    def __init__(self, file_pattern: str, empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD) -> None:
        super().__init__()
        self._pattern, self._match = file_pattern, MatchAll(empty_match_treatment)

    def expand(self, inputs: PBegin) -> PCollection[FileMetadata]:
        """Look for files when the pipeline runs."""
        return inputs.pipeline | Create([self._pattern]) | self._match


class ReadMatches(PTransform[PCollection[FileMetadata | str], PCollection[ReadableFile]]):
    """Makes a `ReadableFile` of each `FileMetadata` or path.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         files = pipeline | MatchFiles(f"{folder}/*.txt") | ReadMatches()
    ...         _ = files | beam.Map(lambda file: print(file.read_utf8()))
    red 5

    Args:
        compression: One of `CompressionTypes`; by default what the names of the files say.
        skip_directories: Whether paths that end in `/` are left out; otherwise they are an error.
    """

    def __init__(self, compression: str | None = None, skip_directories: bool = True) -> None:
        super().__init__()
        self._compression, self._skip = compression, skip_directories

    def expand(self, inputs: PCollection[FileMetadata | str]) -> PCollection[ReadableFile]:
        """The files, which are not opened yet."""
        read = FlatMap(_readable, self._compression, self._skip)
        return cast("PCollection[ReadableFile]", inputs | "Read" >> read.with_output_types(ReadableFile))


def _readable(file: FileMetadata | str, compression: str | None, skip: bool) -> Iterator[ReadableFile]:
    metadata = FileMetadata(file, 0) if isinstance(file, str) else file
    if not metadata.path.endswith("/"):
        yield ReadableFile(metadata, compression)
    elif not skip:
        raise BeamIOError(f"{metadata.path} is a folder; give files, or let skip_directories be True")


class ReadAllFiles(PTransform[PCollection[str], PCollection[object]]):
    """The elements of the files of each pattern; the base of the transforms for the single formats.

    Args:
        read: Function from a file to its elements; it is called in the task that reads the file.
        step: Label of the step that reads.
        with_filename: Whether elements are pairs of the file's path and what `read` gives.
        label: Label of the transform.
        compression: One of `CompressionTypes`.
    """

    def __init__(
        self,
        read: Callable[[ReadableFile], Iterable[object]],
        step: str,
        with_filename: bool,
        label: str | None = None,
        compression: str = CompressionTypes.UNCOMPRESSED,
    ) -> None:
        super().__init__(label)
        self._read, self._step, self._with_filename = read, step, with_filename
        self._compression = compression

    def expand(self, inputs: PCollection[str]) -> PCollection[object]:
        """The elements, in no particular order of the files; each file is read by one task."""
        found = inputs | MatchAll(EmptyMatchTreatment.ALLOW_IF_WILDCARD) | ReadMatches(self._compression)
        return found | Reshuffle() | self._step >> FlatMap(_elements, self._read, self._with_filename)


def _elements(
    file: ReadableFile, read: Callable[[ReadableFile], Iterable[object]], with_filename: bool
) -> Iterable[object]:
    elements = read(file)
    return ((file.metadata.path, element) for element in elements) if with_filename else elements
