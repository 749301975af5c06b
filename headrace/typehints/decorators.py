"""Exports, under the module name of Beam, the decorators that declare types of elements."""

from headrace.sdk.typehints.io_type_hints import (
    IOTypeHints,
    TypeCheckError,
    WithTypeHints,
    disable_type_annotations,
    get_type_hints,
    no_annotations,
    with_input_types,
    with_output_types,
)

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
