"""The faults that show which tests find what: each has its place in the code, and its tests are there."""

from __future__ import annotations

import ast

import pytest

from tests.mutations import MUTATIONS, ROOT, Mutation

EACH = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)


@EACH
def test_each_fault_has_its_place_and_leaves_valid_code(mutation: Mutation) -> None:
    text = (ROOT / mutation.path).read_text()
    broken = mutation.broken(text)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(text))


@EACH
def test_each_fault_has_tests_that_exist(mutation: Mutation) -> None:
    assert mutation.found_by
    for place in mutation.found_by:
        assert (ROOT / place.split()[0]).exists(), place


def test_a_place_that_is_not_found_once_is_named() -> None:
    fault = Mutation("wrong", "a.py", "one", "two", ("tests",))
    with pytest.raises(ValueError, match=r"a.py has 'one' 2 times"):
        fault.broken("one one")
