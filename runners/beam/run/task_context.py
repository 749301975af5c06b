"""What Beam's code expects around it in a task: options, classes of rows, the folder, and where metrics go.

Beam's row coder knows a class of rows, such as a key that is a dataclass or a named tuple, by the number of its schema,
which is made up in the process of the program. A process that does not know the number would decode rows into a class
that Beam generates.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import cloudpickle
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.runners.worker.statesampler import set_current_tracker
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from headrace.lowlevel.metric import collector
from headrace.runners.beam.beam_private import is_generated_row_type
from headrace.runners.beam.run.metrics import MetricsTracker

_log = logging.getLogger(__name__)


def pickled_row_types() -> Mapping[str, bytes]:
    """Number of a schema -> the program's class for it, pickled, as far as that is possible."""
    types = {}
    for number, kind in SCHEMA_REGISTRY.get_registered_typings().items():
        if is_generated_row_type(kind):
            continue
        try:
            types[number] = cloudpickle.dumps(kind)
        except Exception:
            _log.debug("the class of rows %r cannot be sent to workers", kind, exc_info=True)
    return types


def register_row_types(types: Mapping[str, bytes]) -> None:
    """Have rows with these numbers decoded into the program's classes, in this process."""
    for number, data in types.items():
        known = SCHEMA_REGISTRY.get_typing_by_id(number)
        if known is None or is_generated_row_type(known):
            # Beam's own `load_registered_typings` would leave a generated class.
            SCHEMA_REGISTRY.by_id[number] = (cloudpickle.loads(data), SCHEMA_REGISTRY.get_schema_by_id(number))


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
