"""Exports, under the module name of Beam, the modules for tests of pipelines."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.testing import test_pipeline, test_stream, test_utils, util

__all__ = ["test_pipeline", "test_stream", "test_utils", "util"]

add_absent_names(__name__)
