"""A plugin of pytest that writes down which functions of the product each test module calls (`tests.nearest.callmap`).

    ./dev test-for --map [ARGUMENTS OF PYTEST]

In every function of the product the plugin puts a first line that notes the call. What importing a module runs is not
counted. Only processes of pytest are seen: not the tasks of Spark, nor programs that tests start.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from tests.house import ROOT
from tests.nearest.callmap import FOLDER
from tests.nearest.names import is_test

_NOTE = "__note_call__"
_called = set[tuple[str, str]]()
"""Path of the module and name of the function, since the last test began."""


def called_functions(text: str, path: str) -> ast.Module:
    '''A module each of whose functions first notes that it is called.

    >>> print(ast.unparse(called_functions("def f(x):\\n    'Doc.'\\n    return x", "sdk/a.py")))
    def f(x):
        """Doc."""
        __note_call__(('sdk/a.py', 'f'))
        return x
    '''
    tree = ast.parse(text)
    for name, function in list(_functions(tree, "")):
        first = 1 if ast.get_docstring(function, clean=False) is not None else 0
        noted = ast.Constant((path, name))  # type: ignore[arg-type]
        note = ast.Expr(ast.Call(ast.Name(_NOTE, ast.Load()), [noted], []))
        function.body.insert(first, ast.copy_location(note, function.body[-1]))
    return ast.fix_missing_locations(tree)


def _functions(node: ast.AST, outer: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        name = (
            f"{outer}{child.name}" if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else ""
        )
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield name, child
        yield from _functions(child, f"{name}." if name else outer)


class _Loader(SourceFileLoader):
    """Compiles anew what it loads, since bytecode that was kept notes nothing."""

    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        tree = called_functions(path.read_text(encoding="utf-8"), str(path.resolve().relative_to(ROOT)))
        return compile(tree, str(path), "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "headrace":
            return None
        spec = PathFinder.find_spec(fullname, path)  # type: ignore[arg-type]
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _Writer:
    """Collects, for each test module, the functions that its tests called."""

    def __init__(self) -> None:
        self._found: dict[str, set[tuple[str, str]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        _called.clear()
        result = yield
        self._found.setdefault(item.nodeid.partition("::")[0], set()).update(_called)
        return result

    def pytest_sessionfinish(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        plain = {test: sorted(functions) for test, functions in self._found.items() if is_test(test)}
        (FOLDER / f"{os.getpid()}.json").write_text(json.dumps(plain))


def pytest_configure(config: pytest.Config) -> None:
    """Note calls from now on. A module that was imported before would be left out, so none may be."""
    early = [name for name in sys.modules if name.partition(".")[0] == "headrace"]
    assert not early, f"imported before the plugin: {early}"
    setattr(builtins, _NOTE, _called.add)
    sys.meta_path.insert(0, _Finder())
    config.pluginmanager.register(_Writer())
