"""Exports, under the module name of Beam, the types that a program declares for elements."""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple, Union  # noqa: UP035 - Beam's names

from headrace.absent_names.absent_modules import add_absent_names
from headrace.sdk.typehints.hints import KV
from headrace.sdk.typehints.io_type_hints import TypeCheckError, with_input_types, with_output_types
from headrace.typehints import decorators, row_type, typehints

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
    "typehints",
    "with_input_types",
    "with_output_types",
]

add_absent_names(__name__)
