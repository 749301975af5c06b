"""Exports, under the module name of Beam, the options of a pipeline."""

from headrace.options import pipeline_options

__all__ = ["pipeline_options"]
