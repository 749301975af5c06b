"""Exports, under the module name of Beam, the types of rows."""

from headrace.sdk.typehints.hints import RowTypeConstraint

__all__ = ["RowTypeConstraint"]
