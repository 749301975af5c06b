"""Under the name that Beam programs import: the coder of rows."""

from headrace.sdk.coders.composite import RowCoder

__all__ = ["RowCoder"]
