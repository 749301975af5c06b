"""A pipeline: the graph of transforms as the program writes it, and how it is run (`apache_beam.pipeline`).

A run may be recorded, also that of a topology without a pipeline. Errors of a run have tracebacks without the frames of
the engine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from types import TracebackType

from headrace.lowlevel.class_lookup import left_to_loader
from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.storage.credentials import use as use_credentials
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import FULL, as_raised, is_engine, is_users
from headrace.options.pipeline_options import EngineOptions, PipelineOptions, StandardOptions, progress_of
from headrace.options.value_provider import RuntimeValueProvider
from headrace.sdk.compiler.compiler import compile_pipeline, compile_steps
from headrace.sdk.graph.pipeline_graph import PipelineGraph
from headrace.sdk.pipeline.runner_choice import (
    Runner,
    find_runner,
    labels_to_record,
    progress_callback,
    run_options,
)
from headrace.sdk.recording.checkpoint_recording import log_of
from headrace.sdk.recording.recorder import Recorder
from headrace.sdk.recording.recording import Recording
from headrace.sdk.result import NoRun, PipelineResult, RunOutcome, warn_of_unmatched
from headrace.sdk.visualization.diagrams.program_diagrams import mime_bundle

_log = logging.getLogger("headrace.sdk.tracebacks")


def shorten(error: HeadraceError) -> None:
    """Remove the frames of the engine from the traceback of an error of the engine, or of user code in a step.

    The whole traceback is logged at level DEBUG.
    """
    if os.environ.get(FULL) != "1":
        _log.debug("the whole traceback", exc_info=error)
        error.__traceback__ = own_frames(error.__traceback__)


def own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of the engine, and of what the engine calls in the standard library."""
    frames, in_engine = [], False
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        in_engine |= is_engine(name)
        if is_users(name) or not in_engine:
            frames.append(traceback)
        traceback = traceback.tb_next
    shortened: TracebackType | None = None
    for frame in reversed(frames):
        shortened = TracebackType(shortened, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shortened


class Pipeline(PipelineGraph):
    """A graph of transforms, built by applying them with `|`, and run at the end of a `with` block.

    Args:
        runner: A runner, or the name of one (`"LocalRunner"`, `"SparkRunner"`). Without one the option `--runner`
            decides, then the environment variable `HEADRACE_RUNNER` (`local` or `spark`), then it is Spark.
        options: `PipelineOptions`.
        argv: Flags to make options of, where `options` is not given.
        record: Whether the run is recorded in `result.recording`, from which `headrace.plot` draws it: True for all
            groupings, or the label or labels of steps. The option `--record` says the same.

    >>> with Pipeline("LocalRunner") as pipeline:
    ...     steps = pipeline.steps
    >>> steps
    []
    """

    def __init__(
        self,
        runner: Runner | str | None = None,
        options: PipelineOptions | None = None,
        argv: list[str] | None = None,
        record: bool | str | Sequence[str] = False,
    ) -> None:
        if options is not None and not isinstance(options, PipelineOptions):
            raise ValueError(f"options must be PipelineOptions, got {options!r}")
        super().__init__(options or PipelineOptions(argv or []))
        self._use_credentials()
        self.runner: Runner | str | None = runner or self.options.view_as(StandardOptions).runner
        if self.runner is not None and not isinstance(self.runner, str) and not hasattr(self.runner, "run_topology"):
            raise TypeError(f"runner must be a runner or the name of one, got {self.runner!r}")
        self.result: PipelineResult | None = None
        self._record = record

    def _use_credentials(self) -> None:
        """Have sources and sinks look for their files with them while the pipeline is built."""
        use_credentials(None)
        # Options that are wrong are refused by the run.
        with suppress(ValueError):
            use_credentials(self.options.view_as(EngineOptions).credentials)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # Functions capture a pipeline without using it, as with a PCollection.
        return str, ("a pipeline: it exists only where it is built",)

    def topology(self) -> Topology:
        """The compiled pipeline; the same program gives the same topology."""
        return compile_pipeline(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The diagram of the pipeline, for notebooks."""
        return mime_bundle(self)

    def run(self) -> PipelineResult:
        """Run the pipeline to the end of its input; returns when the run has ended.

        Raises:
            TopologyError: The pipeline cannot run.
            StepError: User code of a step raised. The message names the step, key and value. The error is also of the
                class that user code raised, so `except ValueError` catches a `ValueError` of a step; `__cause__` is the
                original.
            RecordingError: There is nothing to record, or a label to record is not that of a step.
        """
        try:
            self.result = self._run_typed()
        except HeadraceError as error:
            # A bare raise adds no frame of this function to the shortened traceback.
            shorten(error)
            raise
        warn_of_unmatched(self.result.counters)
        return self.result

    def _run_typed(self) -> PipelineResult:
        """Run; an error of a step becomes an instance also of the class that user code raised."""
        try:
            return self._run()
        except StepError as error:
            typed_error = as_raised(error)
            if typed_error is error:
                raise
            raise typed_error.with_traceback(error.__traceback__) from typed_error.__cause__

    def _run(self) -> PipelineResult:
        if not self.steps:
            # As in Beam; a program may add steps only if there is something to do.
            return PipelineResult(NoRun())
        for check in self.checks:
            check()
        RuntimeValueProvider.set_runtime_options({})
        labels = labels_to_record(self._record, self.options)
        runner = find_runner(self.runner)
        with progress_callback(self.options) as progress:
            if labels is None:
                options = run_options(self.options, progress)
                return PipelineResult(runner.run_topology(self.topology(), options))
            return self._run_recorded(runner, labels, progress)

    def _run_recorded(
        self, runner: Runner, labels: Sequence[str], progress: Callable[..., None] | None
    ) -> PipelineResult:
        recorder = Recorder.of_pipeline(self, labels, log_of(self.options))
        options = run_options(self.options, recorder.with_progress(progress))
        topology = compile_steps(recorder.steps(self), self.options.view_as(EngineOptions).drain)
        ran = runner.run_topology(recorder.topology(topology), options)
        recording = recorder.recording()
        if (path := self.options.view_as(EngineOptions).record_to) is not None:
            recording.save(path)
        return PipelineResult(ran, recording)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and not left_to_loader(self) and self.steps:
            try:
                self.run().wait_until_finish()
            except HeadraceError as error:
                shorten(error)
                raise


def record_topology(
    runner: Runner, topology: Topology, options: PipelineOptions | None = None, wanted: Collection[str] = ()
) -> tuple[RunOutcome, Recording]:
    """Run a topology, and record its computations of the names wanted, or all.

    With a checkpoint (`--checkpoint` in the options) the recording is stored in it, over all its epochs.

    Raises:
        RecordingError: There is nothing to record, or no computation of such a name.

    >>> from headrace.lowlevel import BoundedInjector, Computation
    >>> from headrace.runners.local import LocalRunner
    >>> class Echo(Computation):
    ...     def process_record(self, record, context):
    ...         context.produce("said", record.value, record.timestamp)
    >>> topology = Topology()
    >>> topology.injector("words", BoundedInjector([("hey", 1), ("ho", 2)]))
    >>> topology.computation("echo", Echo(), inputs={"words": lambda word: word}, outputs=["said"])
    >>> result, recording = record_topology(LocalRunner(), topology)
    >>> [(said.key, said.value, said.event_time) for said in recording.step("echo").productions]
    [('hey', 'hey', 1), ('ho', 'ho', 2)]
    """
    given = options or PipelineOptions([])
    recorder = Recorder.of_topology(topology, wanted, log_of(given))
    engine_options = run_options(given, recorder.with_progress(progress_of(given)))
    result = find_runner(runner).run_topology(recorder.topology(topology), engine_options)
    return result, recorder.recording()
