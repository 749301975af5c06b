"""Exports, under the module name of Beam, the modules for tests of pipelines."""

from headrace.testing import test_pipeline, test_stream, util

__all__ = ["test_pipeline", "test_stream", "util"]
