"""Exports, under the module name of Beam, the types that a program declares for elements."""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple, Union  # noqa: UP035 - Beam's names

from headrace.sdk.typehints.hints import KV

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
    "Union",
]
