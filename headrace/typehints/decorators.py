"""Exports, under the module name of Beam, the decorators that declare types of elements."""

from headrace.sdk.typehints.annotations import disable_type_annotations, no_annotations
from headrace.sdk.typehints.decorators import with_input_types, with_output_types
from headrace.sdk.typehints.errors import TypeCheckError
from headrace.sdk.typehints.io_type_hints import IOTypeHints, WithTypeHints, get_type_hints

__all__ = [
    "IOTypeHints",
    "TypeCheckError",
    "WithTypeHints",
    "disable_type_annotations",
    "get_type_hints",
    "no_annotations",
    "with_input_types",
    "with_output_types",
]
