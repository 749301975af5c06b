"""Sets of paths that stay small: past a bound, prefixes take the place of the paths below them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

MOST_PATHS = 100
"""Greatest number of paths and prefixes that a trie keeps, as in Beam's `BoundedTrieData`."""
Node: TypeAlias = "dict[str, Node] | None"
"""Segment -> what follows it; empty at the end of a path; None for a prefix that stands for everything below it."""


def width(node: Node) -> int:
    """Number of paths and prefixes.

    >>> width({"a": {"b": {}, "c": {}}, "d": None})
    3
    """
    return sum(map(width, node.values())) if node else 1


def with_path(node: Node, path: Iterable[str]) -> Node:
    """A trie with one more path, cut to the bound; the given one may be changed."""
    inner = node
    for segment in path:
        if inner is None:
            return node
        inner = inner.setdefault(segment, {})
    return cut(node)


def merged(node: Node, other: Node) -> Node:
    """The paths of both tries; neither is changed.

    >>> merged({"a": {"b": {}}}, {"a": {"c": {}}, "d": None})
    {'a': {'b': {}, 'c': {}}, 'd': None}
    """
    if node is None or other is None:
        return None
    absent = {segment: merged({}, inner) for segment, inner in other.items() if segment not in node}
    return {segment: merged(inner, other.get(segment, {})) for segment, inner in node.items()} | absent


def cut(node: Node, bound: int = MOST_PATHS) -> Node:
    """A trie of at most `bound` paths: the prefix with the most paths below it is shortened, as often as needed.

    >>> cut({"a": {"x": {}, "y": {}}, "b": {}}, 2)
    {'a': None, 'b': {}}
    """
    while width(node) > bound:
        node = _shortened(node)
    return node


def _shortened(node: Node) -> Node:
    assert node, "a trie of more than one path has segments"
    widest = max(node, key=lambda segment: width(node[segment]))
    return {**node, widest: _shortened(node[widest])} if width(node[widest]) > 1 else None


def node_of(content: object) -> Node:
    """The trie of decoded JSON; raises ValueError for anything else."""
    if content is None:
        return None
    if not isinstance(content, Mapping):
        raise ValueError(f"a trie is an object of tries or null, got {content!r:.200}")
    return {str(segment): node_of(inner) for segment, inner in content.items()}
