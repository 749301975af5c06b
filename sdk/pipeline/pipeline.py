"""A pipeline: the graph of transforms as the program writes it, and how it is run (`apache_beam.pipeline`).

A run may be recorded, also that of a topology without a pipeline. Errors of a run have tracebacks without the frames of
the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import cast

from headrace.lowlevel.class_lookup import left_to_loader
from headrace.lowlevel.errors import HeadraceError, StepError, TopologyError
from headrace.lowlevel.storage.credentials import use as use_credentials
from headrace.lowlevel.topology.topology import Topology
from headrace.options.pipeline_options import EngineOptions, PipelineOptions, StandardOptions, progress_of
from headrace.options.value_provider import RuntimeValueProvider
from headrace.sdk.compiler.compiler import compile_pipeline, compile_steps
from headrace.sdk.graph.pipeline_graph import PipelineGraph
from headrace.sdk.graph.pvalue import Step
from headrace.sdk.pipeline.runner_choice import (
    Runner,
    StartingRunner,
    find_runner,
    labels_to_record,
    progress_callback,
    run_options,
)
from headrace.sdk.pipeline.running_pipeline import RunningPipeline
from headrace.sdk.pipeline.tracebacks import raise_as_users, shorten
from headrace.sdk.recording.checkpoint_recording import log_of
from headrace.sdk.recording.recorder import Recorder
from headrace.sdk.recording.recording import Recording, RecordingError
from headrace.sdk.result import NoRun, PipelineResult, RunOutcome, warn_of_unmatched
from headrace.sdk.visualization.diagrams.program_diagrams import mime_bundle

_log = logging.getLogger("headrace.sdk.pipeline")
_said_how_to_start: list[bool] = []
"""Whether this process has logged how to have a handle."""


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

    def start(self) -> RunningPipeline:
        """Run the pipeline in the background; returns a handle at once.

        The method is not Beam's. The handle waits for the run, stops, drains or cancels it, and has its metrics as of
        the last commit. A run that goes on when the program ends is stopped after its epoch.

        Raises:
            TopologyError: The pipeline cannot run, or has no steps.
            RecordingError: The pipeline is to be recorded, which `run` does.

        >>> import headrace as beam
        >>> pipeline = beam.Pipeline("LocalRunner")
        >>> _ = pipeline | "Numbers" >> beam.Create([1, 2])
        >>> running = pipeline.start()
        >>> running.wait_until_finish()
        'DONE'
        """
        if not self.steps:
            raise TopologyError("the pipeline has no steps, so there is nothing to start; apply transforms to it first")
        if labels_to_record(self._record, self.options) is not None:
            raise RecordingError("start() records nothing; use run(), or make the pipeline without record")
        for check in self.checks:
            check()
        RuntimeValueProvider.set_runtime_options({})
        starting = cast(StartingRunner, find_runner(self.runner))
        run = starting.start(self.topology(), run_options(self.options, progress_of(self.options)))
        self.result = running = RunningPipeline(run, partial(compile_steps, list(self.steps), drains=True))
        return running

    def _run_typed(self) -> PipelineResult:
        """Run; an error of a step becomes an instance also of the class that user code raised."""
        try:
            return self._run()
        except StepError as error:
            raise_as_users(error)

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
                _say_how_to_start(self.steps)
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
        was_started = isinstance(self.result, RunningPipeline)
        if kind is None and not left_to_loader(self) and self.steps and not was_started:
            try:
                self.run().wait_until_finish()
            except HeadraceError as error:
                shorten(error)
                raise


def _say_how_to_start(steps: Iterable[Step]) -> None:
    """Log, once in a process, that a run of endless input can go on in the background."""
    made = ((step, output) for step in steps for output in step.outputs.values())
    endless = next((step.full_label for step, output in made if not output.is_bounded), None)
    if endless is not None and not _said_how_to_start:
        _said_how_to_start.append(True)
        _log.info(
            "the input of step %r does not end, so run() returns when the run is stopped; start() in its place returns "
            "at once, with a handle that waits for the run, stops, drains or cancels it and has its metrics",
            endless,
        )


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
