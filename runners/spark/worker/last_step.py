"""Names the step of a worker process that dies, in a file that Spark adds to its error.

Spark makes a file for the fault handler of each worker process, and adds the contents to the error of a job when the
process is gone. The name of the step stands at the start of that file, which is mapped into memory, so the name
outlives the process; what the fault handler writes about a crash follows. A second file, beside the state stores of the
host, has the step that runs now, for a driver on the same host.
"""

from __future__ import annotations

import faulthandler
import os
from contextlib import suppress
from mmap import mmap
from pathlib import Path

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.metric import Where
from headrace.runners.spark.pyspark_private import FAULT_HANDLER_FOLDER
from headrace.runners.spark.statestore.store_cache import stores_root

MARK = "headrace was in step "
_BYTES = 512
_MOST = 3
"""Greatest number of steps that are named when several tasks run."""


class LastStep:
    """The step that a process runs, in a file that Spark reads after the process has died."""

    def __init__(self) -> None:
        self._text_area: mmap | None = None
        self._file = -1
        self._step = ""
        self._run = ""
        self._note: mmap | None = None
        """The step that runs now, in a file that the driver reads when somebody asks."""

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
            # Otherwise the text of a crash would go into whatever file gets this descriptor next.
            faulthandler.disable()
            os.close(self._file)
            self._file = -1

    def belongs_to(self, run: str) -> None:
        """From now on tell the driver of this run, if it is on this host, which step runs."""
        if run == self._run:
            return
        self._run, self._note = run, None
        with suppress(OSError, ValueError, CheckpointError):
            folder = notes_folder(run)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(folder / str(os.getpid()), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(file, b"".ljust(_BYTES))
            self._note = mmap(file, _BYTES)
            os.close(file)

    def step(self, where: Where) -> None:
        """Note the step whose code runs from now on; an empty name is for code of the engine.

        In a loop over several steps, which has a function to find the one that runs, the note has the loop's name.
        """
        if not isinstance(where, str):
            return
        if self._note is not None:
            self._note[:] = where.encode(errors="replace")[:_BYTES].ljust(_BYTES)
        if self._text_area is not None and where and where != self._step:
            self._step = where
            text = (MARK + " ".join(where.split())).encode(errors="replace")[: _BYTES - 1]
            self._text_area[:] = text.ljust(_BYTES - 1) + b"\n"


def notes_folder(run: str) -> Path:
    """Where worker processes of this host note the steps that they run. Raises `CheckpointError` as `stores_root`."""
    return stores_root() / f"{run}.steps"


def noted_step(run: str) -> str:
    """The steps that worker processes of this host run now, separated by commas; empty if none is known."""
    try:
        notes = list(notes_folder(run).iterdir())
    except (OSError, CheckpointError):
        return ""
    steps = set()
    for note in notes:
        with suppress(OSError, ValueError):
            step = note.read_bytes().decode(errors="replace").strip()
            if not is_running(int(note.name)):
                note.unlink()
            elif step:
                steps.add(step)
    return ", ".join(sorted(steps)[:_MOST])


def is_running(process: int) -> bool:
    """Whether there is a process of this number on this host."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
