"""`headrace.runners.runner`, where Beam programs import `PipelineResult` and `PipelineState` from."""

from headrace.sdk.result import PipelineResult, PipelineState

__all__ = ["PipelineResult", "PipelineState"]
