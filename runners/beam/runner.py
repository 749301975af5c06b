"""HeadraceRunner: runs a pipeline of Apache Beam's SDK."""

from __future__ import annotations

import os

from apache_beam.options.pipeline_options import PipelineOptions as BeamOptions
from apache_beam.pipeline import Pipeline as BeamPipeline
from apache_beam.runners import runner as beam

from headrace.runners.beam.rules import RULES
from headrace.runners.beam.translation import Translation
from headrace.sdk.options import PipelineOptions
from headrace.sdk.pipeline.pipeline import Pipeline


class HeadraceRunner(beam.PipelineRunner):  # type: ignore[misc]  # Beam's types are not read
    """Runs pipelines of Beam's SDK on Headrace, in memory or on Spark."""

    def run_pipeline(self, pipeline: BeamPipeline, options: BeamOptions) -> beam.PipelineResult:
        """Translate a pipeline, and run it."""
        runner = os.environ.get("HEADRACE_RUNNER") or "LocalRunner"
        made = Pipeline(runner, options=PipelineOptions([], pipeline_type_check=False))
        translation = Translation(made, RULES)
        translation.translate(pipeline.transforms_stack[0])
        made.run().wait_until_finish()
        return FinishedResult(beam.PipelineState.DONE)


class FinishedResult(beam.PipelineResult):  # type: ignore[misc]  # Beam's types are not read
    """The result of a pipeline that has run."""

    def wait_until_finish(self, duration: int | None = None) -> str:
        """The state in which the run has ended."""
        return str(self.state)
