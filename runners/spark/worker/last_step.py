"""Names the step of a worker process that dies, in a file that Spark adds to its error.

Spark makes a file for the fault handler of each worker process, and adds the contents to the error of a job when the
process is gone. The name of the step stands at the start of that file, which is mapped into memory, so the name
outlives the process; what the fault handler writes about a crash follows.
"""

from __future__ import annotations

import faulthandler
import os
from contextlib import suppress
from mmap import mmap
from pathlib import Path

from headrace.runners.spark.pyspark_private import FAULT_HANDLER_FOLDER

MARK = "headrace was in step "
_BYTES = 512


class LastStep:
    """The step that a process runs, in a file that Spark reads after the process has died."""

    def __init__(self) -> None:
        self._text_area: mmap | None = None
        self._file = -1
        self._step = ""

    def task_begins(self) -> None:
        """Open the file that Spark has made for this process, if any. Spark deletes it when the task has ended."""
        self._close()
        self._step = ""
        if (folder := os.environ.get(FAULT_HANDLER_FOLDER)) is None:
            return
        # A full disk is no reason to fail.
        with suppress(OSError, ValueError):
            self._file = os.open(Path(folder) / str(os.getpid()), os.O_RDWR)
            os.write(self._file, b"\n".rjust(_BYTES))
            self._text_area = mmap(self._file, _BYTES)
            # The fault handler writes at the current position of the file: after the text.
            faulthandler.enable(self._file)

    def _close(self) -> None:
        if self._text_area is not None:
            self._text_area.close()
            self._text_area = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def step(self, name: str) -> None:
        """Note the step whose code runs from now on; an empty name, for code of the engine, changes nothing."""
        if self._text_area is not None and name and name != self._step:
            self._step = name
            text = (MARK + " ".join(name.split())).encode(errors="replace")[: _BYTES - 1]
            self._text_area[:] = text.ljust(_BYTES - 1) + b"\n"
