"""What Beam's code expects around it in a task: options, classes of rows, the folder, and where metrics go."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.runners.worker.statesampler import set_current_tracker

from headrace.lowlevel.metric import collector
from headrace.runners.beam.run.metrics import MetricsTracker
from headrace.runners.beam.run.row_types import pickled_row_types, register_row_types


class TaskContext:
    """Called at the start of each task, in the process and thread that run it; see `Topology.task_begins`.

    Args:
        options: Option name -> value, as user code reads them by `RuntimeValueProvider`.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self._options = options
        self._is_sent = False
        self._folder = ""
        self._row_types: Mapping[str, bytes] = {}

    def __call__(self) -> None:
        """Set options, classes of rows, the current folder and metrics up."""
        if self._is_sent and RuntimeValueProvider.runtime_options is not self._options:
            # A worker process may have run tasks of another pipeline before.
            RuntimeValueProvider.set_runtime_options(self._options)
            FileSystems.set_options(PipelineOptions([], **self._options))
            register_row_types(self._row_types)
            _go_to(self._folder)
        set_current_tracker(MetricsTracker(collector()))

    def __getstate__(self) -> Mapping[str, object]:
        sent = {"_options": self._options, "_row_types": pickled_row_types()}
        return {**sent, "_is_sent": True, "_folder": str(Path.cwd())}


def _go_to(folder: str) -> None:
    """Have relative paths mean what they mean to the program, on hosts that have its folder.

    Java, which starts the workers, has the folder in which it was started itself.
    """
    with suppress(OSError):
        os.chdir(folder)
