"""Under the names that Beam programs import: testing pipelines."""

from headrace.testing import test_pipeline, test_stream, util

__all__ = ["test_pipeline", "test_stream", "util"]
