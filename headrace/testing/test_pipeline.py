"""Under the name that Beam programs import: a pipeline for tests."""

from headrace.sdk.testing.pipeline import TestPipeline

__all__ = ["TestPipeline"]
