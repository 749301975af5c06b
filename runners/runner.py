"""Under the name that Beam programs import: the result of a run, and its states."""

from headrace.sdk.result import PipelineResult, PipelineState

__all__ = ["PipelineResult", "PipelineState"]
