"""Under the name that Beam programs import: the types of rows."""

from headrace.sdk.types.fields import RowTypeConstraint

__all__ = ["RowTypeConstraint"]
