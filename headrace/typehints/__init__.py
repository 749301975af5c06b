"""Under the names that Beam programs import: types that a program states of its elements."""

from collections.abc import Iterable, Iterator
from typing import Any, Dict, List, Optional, Set, Tuple, Union  # noqa: UP035 - Beam's names

from headrace.sdk.typehints import with_input_types, with_output_types

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
    "with_input_types",
    "with_output_types",
]

KV = tuple  # type: ignore[type-arg]
"""A pair of key and value."""
