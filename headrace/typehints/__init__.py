"""Under the names that Beam programs import: types that a program states of its elements."""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple, Union  # noqa: UP035 - Beam's names

from headrace.sdk.typehints import with_input_types, with_output_types
from headrace.sdk.types.errors import TypeCheckError
from headrace.sdk.types.hints import KV
from headrace.typehints import decorators, row_type

__all__ = [
    "KV",
    "Any",
    "Collection",
    "Dict",
    "FrozenSet",
    "Generator",
    "Iterable",
    "Iterator",
    "List",
    "Optional",
    "Sequence",
    "Set",
    "Tuple",
    "TypeCheckError",
    "Union",
    "decorators",
    "row_type",
    "with_input_types",
    "with_output_types",
]
