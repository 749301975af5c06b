"""Exports, under the module name of Beam, the types of rows."""

from headrace.sdk.typehints.row_type import RowTypeConstraint

__all__ = ["RowTypeConstraint"]
