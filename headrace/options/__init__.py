"""Exports, under the module name of Beam, the options of a pipeline."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.options import pipeline_options, value_provider

__all__ = ["pipeline_options", "value_provider"]

add_absent_names(__name__)
