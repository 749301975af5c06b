"""Exports, under the module name of Beam, the decorators that declare types of elements."""

from headrace.sdk.typehints.decorators import with_input_types, with_output_types
from headrace.sdk.typehints.errors import TypeCheckError

__all__ = ["TypeCheckError", "with_input_types", "with_output_types"]
