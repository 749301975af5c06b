"""Exports, under the module name of Beam, a pipeline for tests."""

from headrace.sdk.testing.pipeline import TestPipeline

__all__ = ["TestPipeline"]
