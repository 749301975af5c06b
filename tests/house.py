"""Figures of the house: how much code there is, in how many files, and which names stand for several things.

`python -m tests.house [COMMIT...]` prints them for the working tree and for commits, side by side. Code is lines
without docstrings, comments and blank lines. Circles of imports are counted between modules, with imports by a text
such as `import_module("headrace.sdk.pipeline.eager")`, which import-linter does not see.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

ROOT = Path(__file__).parents[1]
PACKAGES = "headrace", "sdk", "lowlevel", "runners"
SMALL = 60
"""Lines of a file below which it needs a reason."""
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


@dataclass(frozen=True, slots=True)
class House:
    """The figures of one state of the product."""

    lines: int
    code: int
    modules: int
    small: int
    """Modules of less than `SMALL` lines, `__init__.py` aside."""
    classes: int
    shared_names: int
    """Names that several classes have."""
    in_circles: int
    """Modules that import each other, directly or not."""

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> House:
        """The figures of files, by path.

        >>> House.of({"sdk/a.py": "class A:\\n    '''Doc.'''\\n\\n    x = 1  # one\\n", "sdk/b.py": "class A: pass\\n"})
        House(lines=5, code=3, modules=2, small=2, classes=2, shared_names=1, in_circles=0)
        """
        trees = {path: ast.parse(text) for path, text in texts.items()}
        names = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
        sizes = {path: len(text.splitlines()) for path, text in texts.items()}
        return cls(
            lines=sum(sizes.values()),
            code=sum(len(code_lines(text)) for text in texts.values()),
            modules=len(texts),
            small=sum(size < SMALL and not path.endswith("__init__.py") for path, size in sizes.items()),
            classes=names.total(),
            shared_names=sum(number > 1 for number in names.values()),
            in_circles=sum(map(len, circles({module_of(path): set(imported(tree)) for path, tree in trees.items()}))),
        )


def code_lines(text: str) -> set[int]:
    """Numbers of the lines that have code.

    >>> sorted(code_lines("'''Doc.'''\\nx = 1\\n\\n# no\\ny = '''a\\nb'''\\n"))
    [2, 5, 6]
    """
    found = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE and token.string:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return found


def module_of(path: str) -> str:
    """The name by which a file is imported.

    >>> module_of("sdk/io/__init__.py"), module_of("headrace/cli/app.py")
    ('headrace.sdk.io', 'headrace.cli.app')
    """
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(parts if parts[0] == "headrace" else ["headrace", *parts])


def imported(tree: ast.AST) -> Iterator[str]:
    """What a module may import, also by a text; names of things in a module among them.

    >>> text = "import a\\nif TYPE_CHECKING:\\n    from b import x\\n    import c\\ndef f():\\n    from d import y"
    >>> sorted(imported(ast.parse(text + "\\nimport_module('e')")))
    ['a', 'c', 'd', 'd.y', 'e']
    """
    for_types = set(_imports_for_types(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node not in for_types:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def _imports_for_types(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """The imports that stand below `if TYPE_CHECKING`, so that nothing is imported."""
    for each in ast.walk(tree):
        if isinstance(each, ast.If) and getattr(each.test, "id", "") == "TYPE_CHECKING":
            yield from (node for node in ast.walk(each) if isinstance(node, ast.ImportFrom))


def circles(imports: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The sets of modules each of which imports all others of its set, directly or not.

    >>> circles({"a": ["b"], "b": ["c", "x"], "c": ["b"], "d": ["a"]}) == [{"b", "c"}]
    True
    """
    reached: dict[str, set[str]] = {}
    for module in imports:
        seen, rest = set[str](), [module]
        while rest:
            new = {each for each in imports[rest.pop()] if each in imports} - seen
            seen |= new
            rest += new
        reached[module] = seen
    groups = {frozenset(other for other in seen if module in reached[other]) for module, seen in reached.items()}
    return [set(group) for group in groups if len(group) > 1]


def files(commit: str | None = None) -> dict[str, str]:
    """The product's modules, by path: of the working tree, or of a commit. Symbolic links are left out."""
    if commit is None:
        paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.resolve() == path]
        return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    command = ["git", "archive", commit, *PACKAGES]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = [each for each in archive if each.isfile() and each.name.endswith(".py")]
        return {each.name: cast(IO[bytes], archive.extractfile(each)).read().decode() for each in members}


def main(commits: list[str]) -> None:
    """Print a table: the working tree, then each commit."""
    states = {"now": House.of(files())} | {commit: House.of(files(commit)) for commit in commits}
    print(f"{'':<14}", *(f"{name[:10]:>10}" for name in states))
    for figure in House.__slots__:
        print(f"{figure:<14}", *(f"{getattr(house, figure):>10,}" for house in states.values()))


if __name__ == "__main__":
    main(sys.argv[1:])
