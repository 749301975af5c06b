"""Under the names that Beam programs import: testing pipelines."""

from headrace.testing import util

__all__ = ["util"]
