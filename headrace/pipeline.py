"""Exports, under the module name of Beam, the pipeline."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.sdk.graph.pipeline_graph import AppliedPTransform, PipelineVisitor
from headrace.sdk.pipeline.pipeline import Pipeline

__all__ = ["AppliedPTransform", "Pipeline", "PipelineVisitor"]

add_absent_names(__name__)
