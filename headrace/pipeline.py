"""Under the name that Beam programs import: the pipeline."""

from headrace.sdk.pipeline import Pipeline

__all__ = ["Pipeline"]
