"""What a worker process leaves behind that dies at once: the step at which it was, and where in the user's code.

Spark hands a file of each worker process to Python's fault handler, and puts what it finds there into its error when
the process is gone. The step is kept at the start of that file, in memory that outlives the process; what the fault
handler writes of a crash comes behind it.
"""

from __future__ import annotations

import faulthandler
import os
from contextlib import suppress
from mmap import mmap
from pathlib import Path

SETTING = "spark.sql.execution.pyspark.udf.faulthandler.enabled"
"""Spark's setting that gives each worker process the file."""
MARK = "headrace was in step "
_FOLDER = "PYTHON_FAULTHANDLER_DIR"
_BYTES = 512


class LastWords:
    """Those of this process."""

    def __init__(self) -> None:
        self._words: mmap | None = None
        self._file = -1
        self._step = ""

    def task_begins(self) -> None:
        """Take Spark's file of this process, if it has one. Spark deletes it when the task has ended."""
        self._let_go()
        self._step = ""
        if (folder := os.environ.get(_FOLDER)) is None:
            return
        # A disk without room for this is no reason to fail.
        with suppress(OSError, ValueError):
            self._file = os.open(Path(folder) / str(os.getpid()), os.O_RDWR)
            os.write(self._file, b"\n".rjust(_BYTES))
            self._words = mmap(self._file, _BYTES)
            # It writes where the file stands now, so behind the words.
            faulthandler.enable(self._file)

    def _let_go(self) -> None:
        if self._words is not None:
            self._words.close()
            self._words = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def step(self, name: str) -> None:
        """This step's code runs from now on; an empty name is that of the engine, which works on what the step made."""
        if self._words is not None and name and name != self._step:
            self._step = name
            text = (MARK + " ".join(name.split())).encode(errors="replace")[: _BYTES - 1]
            self._words[:] = text.ljust(_BYTES - 1) + b"\n"


LAST_WORDS = LastWords()
"""Of this process."""
