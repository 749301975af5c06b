"""`headrace.runners.runner`, where Beam programs import `PipelineResult` and `PipelineState` from."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.sdk.pipeline.running_pipeline import RunningPipeline
from headrace.sdk.result import PipelineResult, PipelineState

__all__ = ["PipelineResult", "PipelineState", "RunningPipeline"]

add_absent_names(__name__)
