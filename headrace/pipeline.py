"""Exports, under the module name of Beam, the pipeline."""

from headrace.sdk.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]
