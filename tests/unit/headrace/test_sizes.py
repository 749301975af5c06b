"""Modules have at most 600 lines, and functions at most 40, docstrings aside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LONGEST_MODULE, LONGEST_FUNCTION = 600, 40


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and number of lines of each function, without its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node, clean=False) else 0
            yield node.name, node.end_lineno - node.lineno + 1 - docstring


@pytest.mark.parametrize("package", ["lowlevel", "sdk", "runners", "headrace/cli", "headrace/options", "headrace/ui"])
def test_nothing_is_too_long(package: str) -> None:
    long: list[str] = []
    for path in (ROOT / package).rglob("*.py"):
        text = path.read_text()
        lines = text.count("\n")
        if lines > LONGEST_MODULE:
            long.append(f"{path.relative_to(ROOT)}: {lines} lines")
        long += [
            f"{path.relative_to(ROOT)}: {name}, {length} lines"
            for name, length in functions(ast.parse(text))
            if length > LONGEST_FUNCTION
        ]
    assert not long
