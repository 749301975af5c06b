"""Under the name that Beam programs import: options of a pipeline."""

from headrace.options import pipeline_options

__all__ = ["pipeline_options"]
