"""Exports, under the module name of Beam, the coder of rows."""

from headrace.sdk.coders.composite import RowCoder

__all__ = ["RowCoder"]
