"""From a pipeline to a runner: which one, with which options; loaded by name, as the sdk knows no engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from headrace.lowlevel.metric import Cells
from headrace.lowlevel.topology import Topology
from headrace.sdk.knownoptions import check_known
from headrace.sdk.options import EngineOptions, PipelineOptions

if TYPE_CHECKING:
    from headrace.sdk.recorder import Recorder

_RUNNERS = {
    "local": ("headrace.runners.local", "LocalRunner"),
    "spark": ("headrace.runners.spark", "SparkRunner"),
}
_NAMES = {"localrunner": "local", "directrunner": "local", "sparkrunner": "spark", "local": "local", "spark": "spark"}


class RunResult(Protocol):
    """What a runner says of a finished run."""

    @property
    def epochs(self) -> int:
        """Epochs committed."""

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """Computation, injector stream or sink -> counter -> total."""

    @property
    def watermarks(self) -> dict[str, int]:
        """Computation -> input low watermark at the end, microseconds UTC."""

    @property
    def metrics(self) -> Cells:
        """Step -> metric -> value: those of user code, and in the namespace `headrace` what the engine measures."""


class Runner(Protocol):
    """Anything that runs a topology to the end of its input."""

    def run_topology(self, topology: Topology, options: object) -> RunResult:
        """Run; `options` are those that `run_options` makes."""


def find_runner(wanted: Runner | str | None) -> Runner:
    """The runner itself, or a new one of the name wanted; without one, the environment's choice, else Spark."""
    if wanted is not None and not isinstance(wanted, str):
        return wanted
    name = wanted or os.environ.get("HEADRACE_RUNNER") or "spark"
    # Beam programs also name a runner by its full path.
    known = _NAMES.get(name.rpartition(".")[2].lower())
    if known is None:
        origin = "" if wanted else " (from the environment variable HEADRACE_RUNNER)"
        raise ValueError(f"no runner is named {name!r}{origin}; use 'LocalRunner' or 'SparkRunner'")
    module, kind = _RUNNERS[known]
    return cast(Callable[[], Runner], getattr(import_module(module), kind))()


def find_recorded(wanted: Runner | str | None) -> Runner:
    """As `find_runner`, for a run that is recorded: a clock that nobody gave or moved shows the time of the machine."""
    runner = find_runner(wanted)
    keep_time = getattr(runner, "keep_time", None)
    if keep_time is not None:
        keep_time()
    return runner


def labels_to_record(given: bool | str | Sequence[str], options: PipelineOptions) -> Sequence[str] | None:
    """Labels of the steps to record, none for all; None where nothing is to be recorded.

    >>> labels_to_record(True, PipelineOptions([])), labels_to_record(False, PipelineOptions(["--record=Sum"]))
    ([], ['Sum'])
    """
    view = options.view_as(EngineOptions)
    wanted = given or view.record or view.record_to is not None
    if not wanted:
        return None
    if isinstance(wanted, bool):
        return []
    labels = [wanted] if isinstance(wanted, str) else list(wanted)
    return [] if "" in labels else labels


def checkpoint_of(options: PipelineOptions) -> str | None:
    """The place of the run's checkpoint: of the options, else of the environment; None for none."""
    given = options.view_as(EngineOptions).checkpoint
    return os.environ.get("HEADRACE_CHECKPOINT") or None if given is None else given


def _called(progress: Callable[..., None] | bool | None) -> Callable[..., None] | None:
    return None if isinstance(progress, bool) else progress


@contextmanager
def watching(options: PipelineOptions) -> Iterator[Callable[..., None] | None]:
    """What is told each epoch: what the options name, else in a notebook a display."""
    given = options.view_as(EngineOptions).progress
    if given is not None and given is not False and not callable(given):
        raise ValueError(
            f"progress is {given!r:.200}; give a function that takes the figures of an epoch, or False for no display"
        )
    # Whoever runs in a notebook has IPython loaded; nobody else needs it.
    ipython = sys.modules.get("IPython")
    if given is not None or ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        yield _called(given)
        return
    display = import_module("headrace.runners.reporting.notebook").NotebookDisplay()
    with cast("AbstractContextManager[Callable[..., None]]", display) as shown:
        yield shown


def run_options(
    options: PipelineOptions, recorder: Recorder | None = None, progress: Callable[..., None] | None = None
) -> object:
    """The engine's options of a pipeline's; those not given are left to the engine.

    Args:
        options: Of the pipeline.
        recorder: Is told each epoch, too.
        progress: What is told each epoch instead of what the options name.

    Raises:
        ValueError: An option that nobody declares, or a value that makes no sense; nothing has run.
    """
    check_known(options)
    view = options.view_as(EngineOptions)
    progress = progress or _called(view.progress)
    given = {
        "checkpoint": checkpoint_of(options),
        "intervals": view.intervals,
        "max_records_per_epoch": view.max_records_per_epoch,
        "latency_aim": view.latency_aim,
        "one_task_epochs": view.one_task_epochs,
        "skew_limit": view.skew_limit,
        "straggler_delay": view.straggler_delay,
        "cache_bytes": None if view.cache_mb is None else view.cache_mb << 20,
        "poll_seconds": view.poll_seconds,
        "progress": progress if recorder is None else recorder.followed_by(progress),
        "allow_removed": view.allow_removed,
        "discard_stored": view.discard_stored,
        "drop_pending": view.drop_pending,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if not view.balance:
        given["balancer"] = None
    make = cast(Callable[..., object], import_module("headrace.runners.engine.options").RunOptions)
    return make(**given)
