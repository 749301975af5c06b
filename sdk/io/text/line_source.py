"""What all sources of lines have in common: what is no record can be an output of its own."""

from __future__ import annotations

import copy
from typing import Self

from headrace.sdk.io.apart import ReadApart
from headrace.sdk.io.filesource import FileSource
from headrace.sdk.io.filetimes import FileTimes


class LineSource(FileSource):
    """Reads files of lines."""

    one_line_each = True
    """Whether every record is one line."""
    bad_times: FileTimes | None = None
    """Event times for lines that are no record; None where such a line stops the run."""

    def tolerant(self) -> Self:
        """See `Tolerant`."""
        if not self.one_line_each:
            raise ValueError(
                f"{self.label} reads records of more than a line, so it cannot go on behind what is none; read lines"
            )
        other = copy.copy(self)
        other.bad_times = self.times
        return other

    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad") -> ReadApart:
        """The same with an output for lines that are no record, or whose event time cannot be told.

        Its elements are pairs (`FileLine`, (class of the error, its repr, lines of its traceback)). A wrong header, or
        a file that cannot be read to its end, stops the run all the same.
        """
        return ReadApart(self.tolerant(), main_tag, dead_letter_tag)
