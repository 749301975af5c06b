"""The house: no module imports itself by way of others, and no folder is too full to be read at a glance."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.house import circles, files, module_of
from tests.house import imported as imported_by

ROOT = Path(__file__).parents[3]
MOST = 15
"""Modules of a folder, `__init__.py` aside."""


def imported() -> dict[str, set[str]]:
    """What each module imports, also within functions and for type checkers only."""
    graph = grimp.build_graph("headrace", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the next one, the last one the first; none if there is no such circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert not circle_in(imported()), (
        "a name that both need belongs into a third module, or is a protocol beside its user"
    )


def test_no_import_by_a_text_closes_a_circle() -> None:
    """The graph above does not see `import_module("headrace. …")`."""
    imports = {module_of(path): set(imported_by(ast.parse(text))) for path, text in files().items()}
    assert not circles(imports)


def test_a_circle_is_found() -> None:
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})


@pytest.mark.parametrize("top", ["headrace", "lowlevel", "runners", "sdk"])
def test_no_folder_is_too_full(top: str) -> None:
    modules = Counter(path.parent for path in (ROOT / top).rglob("*.py") if path.name != "__init__.py")
    assert not {str(folder): count for folder, count in modules.items() if count > MOST}
