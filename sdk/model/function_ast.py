"""How: the syntax tree of a user's function, if it is certain that the function runs this tree.

A source file may have changed since it was loaded, and several lambdas may share a line. So the whole file is compiled
again, and a tree is trusted only if its code equals the code of the function. Where code has no columns
(`PYTHONNODEBUGRANGES=1`), the tree must also be the only candidate at its line.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType

CALLED = "HEADRACE_CALL_FUNCTIONS"
"""Environment variable: `1` calls every function and translates none; `0` translates also while functions are watched;
without it functions are called while a debugger or a coverage tool is active."""
Tree = ast.FunctionDef | ast.Lambda
_MONITORING_TOOLS = 6
"""Number of tools that `sys.monitoring` (Python 3.12) allows."""
_MOST_LINES = 5_000
"""Longer files are not compiled again, as that takes a tenth of a second."""


DEEPEST = 60
"""Levels of a syntax tree that are read; Python may take eight calls for one, and has a thousand."""


def is_deep(tree: ast.AST) -> bool:
    """Whether a tree is too deep for recursive functions that write, translate, pickle and compute it."""
    level = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def tree_of(function: object) -> Tree | None:
    """The definition of a plain function without decorators; None if it is not found, or is ambiguous.

    None also where functions have to be called, as `must_call` says.
    """
    return None if must_call() else definition_of(function)


def must_call() -> bool:
    """Whether functions have to be called: a debugger or a coverage tool must see it, or `CALLED` says so."""
    asked = os.environ.get(CALLED)
    return asked == "1" or (asked != "0" and is_watched())


def definition_of(function: object) -> Tree | None:
    """As `tree_of`, but also while a debugger or a coverage tool is active."""
    if type(function) is not FunctionType:
        return None
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not 0 < len(lines) <= _MOST_LINES:
        return None
    file = _file(code.co_filename, "".join(lines))
    if file is None:
        return None
    if not any(_positions(code) == _positions(other) for other in file.codes.get(code, ())):
        return None
    candidates = [tree for tree in file.at(code.co_firstlineno) if _may_be(tree, code) and _spans(tree, code)]
    if len(candidates) > 1 and not _has_columns(code):
        return None
    # Several nested lambdas may span the code of the innermost.
    return max(candidates, key=_begin, default=None)


def is_watched() -> bool:
    """Whether a debugger or a coverage tool is active in this thread."""
    if sys.gettrace() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return False
    # A profiler does not need to see functions that are not called.
    others = set(range(_MONITORING_TOOLS)) - {monitoring.PROFILER_ID, monitoring.OPTIMIZER_ID}
    return any(monitoring.get_tool(each) is not None for each in others)


def is_assigned_inside(function: FunctionType, name: str) -> bool:
    """Whether a function in the same file may assign a new value to a global name or to an outer function's variable.

    True also if the file is not found.
    """
    name_of_file = function.__code__.co_filename
    file = _file(name_of_file, "".join(linecache.getlines(name_of_file, function.__globals__)))
    return file is None or name in file.assigned_inside


def returned_by(tree: Tree) -> ast.expr | None:
    """The returned expression of a function that does nothing else; None for other functions."""
    if isinstance(tree, ast.Lambda):
        return tree.body
    body = tree.body[ast.get_docstring(tree, clean=False) is not None :]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


class _File:
    """The functions in a file."""

    def __init__(self, module: ast.Module, code: CodeType) -> None:
        self._trees: dict[int, list[Tree]] = {}
        self.assigned_inside: set[str] = set()
        """Names in `global` and `nonlocal` statements."""
        for node in ast.walk(module):
            if isinstance(node, ast.Lambda) or (isinstance(node, ast.FunctionDef) and not node.decorator_list):
                self._trees.setdefault(node.lineno, []).append(node)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                self.assigned_inside.update(node.names)
        self.codes: dict[CodeType, list[CodeType]] = {}
        """Code -> all code objects equal to it; code of another column on the same line may be equal."""
        for each in _codes(code):
            self.codes.setdefault(each, []).append(each)

    def at(self, line: int) -> list[Tree]:
        """The functions that begin at a line."""
        return self._trees.get(line, [])


@lru_cache(maxsize=16)
def _file(name: str, text: str) -> _File | None:
    # Python warned of the file when it was loaded.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = ast.parse(text)
            return _File(module, compile(text, name, "exec", dont_inherit=True))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            # A notebook cell may hold more than Python, and a file may have changed to anything.
            return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _may_be(tree: Tree, code: CodeType) -> bool:
    name = "<lambda>" if isinstance(tree, ast.Lambda) else tree.name
    parameters = [each.arg for each in (*tree.args.posonlyargs, *tree.args.args)]
    return name == code.co_name and parameters == list(code.co_varnames[: code.co_argcount])


def _begin(tree: Tree) -> tuple[int, int]:
    part = tree.body if isinstance(tree, ast.Lambda) else tree
    return part.lineno, part.col_offset


def _positions(code: CodeType) -> list[tuple[int | None, ...]]:
    return list(code.co_positions())


def _has_columns(code: CodeType) -> bool:
    # Python 3.12 has none for a lambda that returns a constant.
    return any(end_column for *_, end_column in code.co_positions())


def _spans(tree: Tree, code: CodeType) -> bool:
    """Whether all of the code lies within the definition; of a lambda, within its body."""
    part = tree.body if isinstance(tree, ast.Lambda) else tree
    last = (part.end_lineno or 0, part.end_col_offset or 0)
    return all(
        _begin(tree) <= (line, column) and (end_line, end_column) <= last
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and end_column
    )
