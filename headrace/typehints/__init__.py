"""Under the names that Beam programs import: types that a program states of its elements."""

from collections.abc import Iterable, Iterator
from typing import Any, Dict, List, Optional, Set, Tuple, Union  # noqa: UP035 - Beam's names

from headrace.sdk.typehints import with_input_types, with_output_types
from headrace.sdk.types.hints import KV
from headrace.typehints import row_type

__all__ = [
    "KV",
    "Any",
    "Dict",
    "Iterable",
    "Iterator",
    "List",
    "Optional",
    "Set",
    "Tuple",
    "Union",
    "row_type",
    "with_input_types",
    "with_output_types",
]
