"""The state of a window is written by its own methods only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from headrace.sdk.operators.grouping.window_state import WindowState

OPERATORS = Path(__file__).parents[5] / "sdk" / "operators"
FIELDS = set(WindowState.__annotations__)


def _written(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes of objects other than `self` that are assigned or deleted."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield node


def test_nobody_else_writes_its_fields() -> None:
    found = [
        f"{path.relative_to(OPERATORS)}:{node.lineno}: {ast.unparse(node)}"
        for path in OPERATORS.rglob("*.py")
        for node in _written(ast.parse(path.read_text()))
        if node.attr in FIELDS and path.name != "window_state.py"
    ]
    assert len(FIELDS) == 17 and not found
