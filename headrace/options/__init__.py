"""Exports, under the module name of Beam, the options of a pipeline."""

from headrace.options import pipeline_options, value_provider
from headrace.sdk.absent_names.absent_modules import add_absent_names

__all__ = ["pipeline_options", "value_provider"]

add_absent_names(__name__)
