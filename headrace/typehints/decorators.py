"""Under the name that Beam programs import: types stated by decorators."""

from headrace.sdk.typehints import with_input_types, with_output_types
from headrace.sdk.types.errors import TypeCheckError

__all__ = ["TypeCheckError", "with_input_types", "with_output_types"]
