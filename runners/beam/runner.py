"""HeadraceRunner: runs a pipeline of Apache Beam's SDK."""

from __future__ import annotations

from apache_beam.options.pipeline_options import PipelineOptions as BeamOptions
from apache_beam.pipeline import Pipeline as BeamPipeline
from apache_beam.runners import runner as beam
from apache_beam.transforms.ptransform import PTransform

from headrace.runners.beam.native import refuse_external
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.translation import Translation
from headrace.sdk.options import PipelineOptions
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.pipeline.runner_choice import find_recording_runner


class HeadraceRunner(beam.PipelineRunner):  # type: ignore[misc]  # Beam's types are not read
    """Runs pipelines of Beam's SDK on Headrace, in memory or on Spark."""

    def apply(self, transform: PTransform, input: object, options: BeamOptions) -> object:
        """Expand a transform while the pipeline is built. Raises UntranslatableError for one of another language."""
        stack = getattr(input, "pipeline", None)
        refuse_external(transform, stack.transforms_stack[-1].full_label if stack else transform.label)
        return super().apply(transform, input, options)

    def run_pipeline(self, pipeline: BeamPipeline, options: BeamOptions) -> beam.PipelineResult:
        """Translate a pipeline, and run it."""
        # Beam has checked types and triggers. User code sets timers by the machine's clock.
        checked = PipelineOptions([], pipeline_type_check=False, allow_unsafe_triggers=True)
        made = Pipeline(find_recording_runner("LocalRunner"), options=checked)
        translation = Translation(made, RULES)
        translation.translate(pipeline.transforms_stack[0])
        made.run().wait_until_finish()
        return beam.PipelineResult(beam.PipelineState.DONE)
