"""The runner of a pipeline and its options, loaded by name, as the sdk imports no engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from headrace.lowlevel.storage.places import hidden, is_url
from headrace.lowlevel.topology.topology import Topology
from headrace.options.pipeline_options import EngineOptions, PipelineOptions, progress_of
from headrace.sdk.pipeline.running_pipeline import StartedRun
from headrace.sdk.result import RunOutcome

_LOADED = {
    "local": ("headrace.runners.local", "LocalRunner"),
    "spark": ("headrace.runners.spark", "SparkRunner"),
    "options": ("headrace.runners.engine.options", "run_options"),
    "display": ("headrace.runners.reporting.notebook", "NotebookDisplay"),
}
"""Name -> module and class or function of `runners`, which the sdk imports only when a pipeline runs."""
_BEAM_RUNNERS = ("directrunner", "bundlebaseddirectrunner", "switchingdirectrunner", "fnapirunner", "prismrunner")
"""Names of Beam's runners in memory, in lower case, for which the local runner is taken."""
_RUNNERS = {
    "localrunner": "local",
    "local": "local",
    "sparkrunner": "spark",
    "spark": "spark",
    **dict.fromkeys(_BEAM_RUNNERS, "local"),
}
"""Name of a runner in lower case -> its name in `_LOADED`."""


class Runner(Protocol):
    """Runs a topology to the end of its input."""

    def run_topology(self, topology: Topology, options: object) -> RunOutcome:
        """Run a topology with the options that `run_options` makes."""


class StartingRunner(Protocol):
    """Runs a topology in the background."""

    def start(self, topology: Topology, options: object) -> StartedRun:
        """Begin to run a topology with the options that `run_options` makes."""


def find_runner(wanted: Runner | str | None) -> Runner:
    """The given runner, or a new one of the given name; for None the one that the environment names, else Spark.

    Raises `ValueError` for a name that is not known.
    """
    if wanted is not None and not isinstance(wanted, str):
        return wanted
    name = wanted or os.environ.get("HEADRACE_RUNNER") or "spark"
    # Beam programs also name a runner by its full path.
    known = _RUNNERS.get(name.rpartition(".")[2].lower())
    if known is None:
        origin = "" if wanted else " (from the environment variable HEADRACE_RUNNER)"
        raise ValueError(
            f"no runner is named {name!r}{origin}; use 'local' or 'spark', or 'LocalRunner' or 'SparkRunner'"
        )
    return cast(Runner, _loaded(known)())


def labels_to_record(given: bool | str | Sequence[str], options: PipelineOptions) -> Sequence[str] | None:
    """Labels of the steps to record, an empty list for all; None if nothing is recorded.

    >>> labels_to_record(True, PipelineOptions([])), labels_to_record(False, PipelineOptions(["--record=Sum"]))
    ([], ['Sum'])
    """
    view = options.view_as(EngineOptions)
    wanted = given or view.record or view.record_to is not None
    if not wanted:
        return None
    if view.record_to is not None:
        _check_file(view.record_to)
    if isinstance(wanted, bool):
        return []
    labels = [wanted] if isinstance(wanted, str) else list(wanted)
    return [] if "" in labels else labels


def _check_file(name: str) -> None:
    """Raise `ValueError` for a file of a recording that cannot be written when the run has ended."""
    path, wrong = Path(name).absolute(), None
    if name == "" or is_url(name):
        wrong = "is no path; give that of a file on this machine"
    elif path.is_dir():
        wrong = "names a folder; give a file in it"
    elif not path.parent.is_dir():
        wrong = "names a folder that does not exist; make the folder, or give another file"
    if wrong is not None:
        raise ValueError(f"--record_to={hidden(name)} {wrong}. Nothing has run")


@contextmanager
def progress_callback(options: PipelineOptions) -> Iterator[Callable[..., None] | None]:
    """Yields the function to call after each epoch: that of the options, else in a notebook a display, else None.

    Raises `ValueError` for an option that is neither a function nor False.
    """
    progress = options.view_as(EngineOptions).progress
    if progress is not None and progress is not False and not callable(progress):
        raise ValueError(
            f"progress is {progress!r:.200}; give a function that takes the figures of an epoch, "
            "or False for no display"
        )
    # In a notebook IPython is loaded already; elsewhere it is not needed.
    ipython = sys.modules.get("IPython")
    if progress is not None or ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        yield progress_of(options)
        return
    with cast("AbstractContextManager[Callable[..., None]]", _loaded("display")()) as display:
        yield display


def run_options(options: PipelineOptions, progress: Callable[..., None] | None = None) -> object:
    """The engine's `RunOptions` for the options of a pipeline: `headrace.runners.engine.options.run_options`."""
    return _loaded("options")(options, progress)


def _loaded(name: str) -> Callable[..., object]:
    module, kind = _LOADED[name]
    return cast(Callable[..., object], getattr(import_module(module), kind))
