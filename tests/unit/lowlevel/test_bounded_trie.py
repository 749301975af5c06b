"""Sets of paths: what is added and merged is found again, and past the bound prefixes take the place of paths."""

from __future__ import annotations

import pytest

from headrace.lowlevel.metric_cells import MOST_PATHS, cut, merged, node_of, width, with_path


def made_of(*paths):
    node = {}
    for path in paths:
        node = with_path(node, path)
    return node


def test_a_longer_path_takes_the_place_of_its_beginning() -> None:
    assert made_of("a", "ab", "ab", "ac") == {"a": {"b": {}, "c": {}}}
    assert made_of("ab", "a") == {"a": {"b": {}}}


def test_a_prefix_that_was_cut_takes_what_comes_later() -> None:
    node = made_of(*[("a", str(number)) for number in range(MOST_PATHS)], "b", "ax")
    assert node == {"a": None, "b": {}}


def test_the_prefix_with_most_paths_is_cut_at_its_deepest() -> None:
    node = {"a": {"x": {"1": {}, "2": {}, "3": {}}, "y": {}}, "b": {"1": {}, "2": {}}}
    assert cut(node, 5) == {"a": {"x": None, "y": {}}, "b": {"1": {}, "2": {}}}
    assert cut(node, 1) is None


def test_merging_changes_neither() -> None:
    one, other = made_of("ab"), made_of("ac", "d")
    both = merged(one, other)
    assert both == {"a": {"b": {}, "c": {}}, "d": {}} and width(both) == 3
    with_path(both, "de")
    assert (one, other) == (made_of("ab"), made_of("ac", "d"))
    assert merged(one, {"a": None}) == merged({"a": None}, one) == {"a": None}


@pytest.mark.parametrize("content", [[], 5, {"a": 5}])
def test_only_a_trie_is_read(content: object) -> None:
    with pytest.raises(ValueError, match="a trie is an object of tries or null"):
        node_of(content)
