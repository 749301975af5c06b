"""The base of sources of lines: an output for unreadable lines."""

from __future__ import annotations

import copy
from typing import Self

from headrace.sdk.io.dead_letters import ReadApart
from headrace.sdk.io.files.file_source import FileSource
from headrace.sdk.io.files.file_times import FileTimes


class LineSource(FileSource):
    """Reads files of lines."""

    one_line_each = True
    """Whether every record is one line."""
    bad_times: FileTimes | None = None
    """Event times for unreadable lines; None where such a line stops the run."""

    def tolerant(self) -> Self:
        """See `Tolerant.tolerant`. Raises `ValueError` if records may have several lines."""
        if not self.one_line_each:
            raise ValueError(
                f"{self.label} reads records of several lines, and cannot go on after a bad one; read lines"
            )
        other = copy.copy(self)
        other.bad_times = self.times
        return other

    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad") -> ReadApart:
        """The same source with an output for lines that cannot be read or have no valid event time.

        Its elements are pairs (`FileLine`, (class of the error, its repr, lines of its traceback)). A wrong header, or
        a file that cannot be read to its end, still stops the run.
        """
        return ReadApart(self.tolerant(), main_tag, dead_letter_tag)
