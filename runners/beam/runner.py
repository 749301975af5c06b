"""HeadraceRunner: runs a pipeline of Apache Beam's SDK."""

from __future__ import annotations

import logging
from typing import cast

from apache_beam.options.pipeline_options import PipelineOptions as BeamOptions
from apache_beam.options.pipeline_options import StandardOptions, TypeOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.pipeline import Pipeline as BeamPipeline
from apache_beam.runners import runner as beam
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.ptransform import PTransform

from headrace.runners.beam.labels import StableLabels, TranslatedPipeline
from headrace.runners.beam.native import refuse_external
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.run.options import HeadraceOptions, engine_options, refuse_misspelt, runtime_values
from headrace.runners.beam.run.pipeline_run import HeadraceResult, PipelineRun, StoppableRunner
from headrace.runners.beam.translation import Translation
from headrace.sdk.pipeline.runner_choice import Runner, find_runner

_compile_log = logging.getLogger("headrace.sdk.compile")


class HeadraceRunner(beam.PipelineRunner):  # type: ignore[misc]  # Beam's types are not read
    """Runs pipelines of Beam's SDK on Headrace, in memory or on Spark.

    A bounded pipeline runs until its end in `run`, as with Beam's own runner. A streaming one, which has `--streaming`
    or an unbounded collection, goes on after `run` has returned.

    >>> import apache_beam as beam
    >>> with beam.Pipeline(HeadraceRunner("LocalRunner")) as pipeline:
    ...     _ = pipeline | beam.Create([("red", 5), ("red", 7)]) | beam.CombinePerKey(sum) | beam.Map(print)
    ('red', 12)

    Args:
        runner: The runner below: `"LocalRunner"`, `"SparkRunner"`, or an object of these classes. Without one the
            option `--headrace_runner` decides, then the environment variable `HEADRACE_RUNNER`, then it is Spark.
    """

    def __init__(self, runner: Runner | str | None = None) -> None:
        super().__init__()
        self._runner = runner

    def apply(self, transform: PTransform, input: object, options: BeamOptions) -> object:
        """Expand a transform while the pipeline is built. Raises UntranslatableError for one of another language."""
        stack = getattr(input, "pipeline", None)
        refuse_external(transform, stack.transforms_stack[-1].full_label if stack else transform.label)
        return super().apply(transform, input, options)

    def run_pipeline(self, pipeline: BeamPipeline, options: BeamOptions) -> HeadraceResult:
        """Translate a pipeline, and run it.

        Raises:
            ValueError: An option is misspelt, or a value is invalid; nothing has run.
            UntranslatableError: A step cannot be run; nothing has run.
        """
        refuse_misspelt(options)
        if not _compile_log.level:
            # Beam's programs log at INFO as a rule; how each step is executed is said where somebody asks for it.
            _compile_log.setLevel(logging.WARNING)
        pipeline.visit(group_by_key_input_visitor(not options.view_as(TypeOptions).allow_non_deterministic_key_coders))
        values = runtime_values(options)
        RuntimeValueProvider.set_runtime_options(values)
        runner = engine_runner(self._runner, options)
        look = _Streams()
        pipeline.visit(look)
        is_streaming = look.unbounded or bool(options.view_as(StandardOptions).streaming)
        run = PipelineRun(cast(StoppableRunner, runner), values, is_streaming, waits=is_streaming and not look.scripted)
        root = pipeline.transforms_stack[0]
        labels = StableLabels(root)
        run.shown = labels.beams
        translated = TranslatedPipeline(run, engine_options(options), labels)
        Translation(translated, RULES).translate(root)
        run.begin(translated.run if translated.steps else lambda: None)
        return HeadraceResult(run)


def engine_runner(given: Runner | str | None, options: BeamOptions) -> Runner:
    """The runner below Beam's: the given one, else that of the option, else as `find_runner` finds it."""
    return find_runner(given or options.view_as(HeadraceOptions).headrace_runner)


class _Streams(PipelineVisitor):  # type: ignore[misc]  # Beam's types are not read
    """Looks for streams.

    Attributes:
        unbounded: Whether a collection is unbounded.
        scripted: Whether one is that of a `TestStream`, which says itself what time it is.
    """

    def __init__(self) -> None:
        self.unbounded = self.scripted = False

    def visit_value(self, value: object, producer_node: AppliedPTransform) -> None:
        """Look at one collection."""
        self.unbounded |= not getattr(value, "is_bounded", True)
        self.scripted |= isinstance(producer_node.transform, TestStream)
