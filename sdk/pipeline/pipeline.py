"""A pipeline: the graph of transforms as the program writes it (`apache_beam.pipeline`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import cast

from headrace.lowlevel.errors import HeadraceError, StepError, TopologyError
from headrace.lowlevel.raised import as_raised
from headrace.lowlevel.topology import Topology
from headrace.sdk.options import EngineOptions, PipelineOptions, StandardOptions
from headrace.sdk.ptransform import NamedPTransform, PTransform, SomeTransform, named_values
from headrace.sdk.pvalue import DoOutputsTuple, InT, OutT, PBegin, PCollection, PDone, PValue
from headrace.sdk.result import PipelineResult, warn_of_unmatched
from headrace.sdk.running import Runner, find_recorded, find_runner, labels_to_record, run_options, watching
from headrace.sdk.tracebacks import shorten
from headrace.sdk.types.check import check_inputs, type_outputs


@dataclass(eq=False)
class Step:
    """A transform in its place in the pipeline."""

    full_label: str
    """Its label after those of the composite transforms around it, as in `outer/inner`."""
    transform: SomeTransform
    inputs: list[PValue]
    outputs: dict[str | None, PCollection[object]] = field(default_factory=dict)
    """Tag -> collection that this step itself puts out; empty for a composite one."""

    def add_output(self, output: PCollection[object]) -> None:
        """Make a collection an output of this step."""
        output.producer = self
        self.outputs[output.tag] = output


class Pipeline:
    """A graph of transforms, built by applying them with `|`, and run at the end of a `with` block.

    Args:
        runner: A runner, or the name of one (`"LocalRunner"`, `"SparkRunner"`). Without one the option `--runner`
            decides, then the environment variable `HEADRACE_RUNNER` (`local` or `spark`), then it is Spark.
        options: `PipelineOptions`.
        argv: Flags to make options of, where `options` is not given.
        record: Whether `result.recording` keeps what a picture of the run needs (`headrace.plot`), of all groupings;
            or the label, or labels, of those steps that it is to be kept of. As the option `--record`.

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
        self.options = options or PipelineOptions(argv or [])
        self.runner: Runner | str | None = runner or self.options.view_as(StandardOptions).runner
        if self.runner is not None and not isinstance(self.runner, str) and not hasattr(self.runner, "run_topology"):
            raise TypeError(f"runner must be a runner or the name of one, got {self.runner!r}")
        self.steps: list[Step] = []
        """Every step, in the order in which they were applied."""
        self.checks: list[Callable[[], None]] = []
        """What is called before the pipeline runs, to raise if something about it is not finished."""
        self.result: PipelineResult | None = None
        self._record = record
        self._around: list[str] = []
        self._labels: set[str] = set()

    def __or__(self, transform: PTransform[PBegin, OutT]) -> OutT:
        return self.apply(transform, PBegin(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # As with a PCollection: functions capture it without using it.
        return str, ("a pipeline: it exists only where it is built",)

    def apply(self, transform: PTransform[InT, OutT], inputs: object, label: str | None = None) -> OutT:
        """Apply a transform to a collection, or to nested tuples, lists and dicts of them; what `|` does.

        Raises:
            TypeError: `transform` is no transform, or takes a collection and is applied to something else.
            RuntimeError: Another step has the same full label.
        """
        if isinstance(transform, NamedPTransform):
            named: NamedPTransform[InT, OutT] = transform
            return self.apply(named.transform, inputs, label or named.label)
        if not isinstance(transform, PTransform):
            raise TypeError(f"expected a transform, got {transform!r}; write pcollection | Map(function), say")
        step = Step(self._claim(label or transform.label), transform, self._inputs_of(transform, inputs))
        self.steps.append(step)
        check_inputs(step, inputs)
        with self._inside(step.full_label):
            result = transform.expand(cast(InT, inputs))
        self._own(step, result)
        type_outputs(step, inputs, result)
        return result

    def _claim(self, label: str) -> str:
        full_label = "/".join([*self._around, label])
        if full_label in self._labels:
            raise RuntimeError(
                f"a step with the label {full_label!r} already exists in the pipeline; "
                "give this one a label of its own: pcollection | 'label' >> transform"
            )
        self._labels.add(full_label)
        return full_label

    def has_label(self, full_label: str) -> bool:
        """Whether a step of this label exists."""
        return full_label in self._labels

    @property
    def current_label(self) -> str:
        """The full label of the step that is being applied."""
        return self._around[-1] if self._around else ""

    def _inputs_of(self, transform: PTransform[InT, OutT], inputs: object) -> list[PValue]:
        values = [value for _, value in named_values(inputs)]
        if inputs is None or any(isinstance(value, PDone) for value in values):
            raise TypeError(
                f"transform {transform.label!r} was applied to the output of a step that has none ({inputs!r}); "
                "apply it to a collection"
            )
        if any(value.pipeline is not self for value in values):
            raise ValueError(
                f"transform {transform.label!r} was given collections of different pipelines; build both in one"
            )
        return values

    @contextmanager
    def _inside(self, full_label: str) -> Iterator[None]:
        around, self._around = self._around, [full_label]
        try:
            yield
        finally:
            self._around = around

    def _own(self, step: Step, result: object) -> None:
        """Make the step the producer of what no inner step produced."""
        values = result.all() if isinstance(result, DoOutputsTuple) else [value for _, value in named_values(result)]
        for value in values:
            if isinstance(value, PCollection) and value.producer is None:
                step.add_output(value)

    def topology(self) -> Topology:
        """What the pipeline compiles to; the same program gives the same topology."""
        from headrace.sdk.compile import compile_pipeline

        return compile_pipeline(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What a notebook shows."""
        from headrace.sdk.drawing.notebook import bundle

        return bundle(self)

    def run(self) -> PipelineResult:
        """Run the pipeline to the end of its input.

        Raises:
            TopologyError: There is nothing to run, or it cannot run.
            StepError: A step raised; the message names it and what it was at. It is of the class that was raised, too,
                so that `except ValueError` catches a `ValueError` of a step; what was raised is its `__cause__`.
            RecordingError: There is nothing to record, or no step of a label that is to be recorded.
        """
        try:
            self.result = self._run_typed()
        except HeadraceError as error:
            # A bare raise adds no frame of this function to what is left.
            shorten(error)
            raise
        warn_of_unmatched(self.result.counters)
        return self.result

    def _run_typed(self) -> PipelineResult:
        """Run, and have what a step raised be of the class that it was raised as."""
        try:
            return self._run()
        except StepError as error:
            made = as_raised(error)
            if made is error:
                raise
            raise made.with_traceback(error.__traceback__) from made.__cause__

    def _run(self) -> PipelineResult:
        if not self.steps:
            raise TopologyError("the pipeline has no steps; apply a transform first: pipeline | Create([1, 2, 3])")
        for check in self.checks:
            check()
        wanted = labels_to_record(self._record, self.options)
        runner = find_runner(self.runner) if wanted is None else find_recorded(self.runner)
        with watching(self.options) as progress:
            if wanted is None:
                options = run_options(self.options, progress=progress)
                return PipelineResult(runner.run_topology(self.topology(), options))
            return self._run_recorded(runner, wanted, progress)

    def _run_recorded(
        self, runner: Runner, wanted: Sequence[str], progress: Callable[..., None] | None
    ) -> PipelineResult:
        from headrace.sdk.compile import compile_steps
        from headrace.sdk.recorder import Recorder
        from headrace.sdk.recordlog import log_of

        recorder = Recorder.of_pipeline(self, wanted, log_of(self.options))
        options = run_options(self.options, recorder, progress)
        ran = runner.run_topology(recorder.topology(compile_steps(recorder.steps(self))), options)
        recording = recorder.recording()
        if (path := self.options.view_as(EngineOptions).record_to) is not None:
            recording.save(path)
        return PipelineResult(ran, recording)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and self.steps:
            try:
                self.run().wait_until_finish()
            except HeadraceError as error:
                shorten(error)
                raise
