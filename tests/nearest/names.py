"""The tests that name what a module defines, directly or over other modules: an answer without running anything.

A name is followed to the module that defines it. A test that says `beam.transforms.trigger.AfterCount` therefore names
`headrace.sdk.triggers.data_driven`, and not the three packages that pass the name on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.house import ROOT, module_of

FOLDERS = "headrace", "sdk", "lowlevel", "runners", "examples", "benchmarks", "tests"
_OF_THE_PRODUCT = FOLDERS[:4]


def module_name(path: str) -> str:
    """The name by which a file of the repository is imported.

    >>> module_name("sdk/io/__init__.py"), module_name("tests/terminal.py")
    ('headrace.sdk.io', 'tests.terminal')
    """
    name = module_of(path)
    return name if path.split("/")[0] in _OF_THE_PRODUCT else name.removeprefix("headrace.")


def is_test(path: str) -> bool:
    """Whether pytest collects a file as a test module."""
    return path.startswith("tests/") and Path(path).name.startswith("test_")


# Regular expressions, since to parse all files takes five times as long, and the command is to answer at once.
_OURS = rf"(?:{'|'.join(FOLDERS)})"
_FROM = re.compile(rf"^[ \t]*from ({_OURS}[\w.]*) import (\([^)]*\)|[^(\n]+)", re.MULTILINE)
_WHOLE = re.compile(rf"^[ \t]*import ({_OURS}[\w.]*)(?: as (\w+))?", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?: as (\w+))?")
_COMMENT = re.compile(r"#.*")
_DOTTED = re.compile(r"(?<![\w.])[a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)+")


@dataclass(frozen=True, slots=True)
class _Module:
    """What one file imports of the repository, and what it looks up in imported modules."""

    bound: Mapping[str, tuple[str, str]]
    """Local name to the module and the name in it; the second is empty for a module itself."""
    chains: frozenset[tuple[str, ...]]
    """Dotted names that begin with an imported name, such as `beam.transforms.trigger.AfterCount`."""

    @classmethod
    def of(cls, text: str) -> _Module:
        """A file's imports, also those within functions.

        >>> module = _Module.of("import headrace as beam\\nfrom tests.a import (\\n    x,\\n)\\nbeam.io.x(other.y)")
        >>> module.bound
        {'beam': ('headrace', ''), 'x': ('tests.a', 'x')}
        >>> module.chains
        frozenset({('beam', 'io', 'x')})
        """
        bound = {
            name or whole.split(".")[0]: (whole if name else whole.split(".")[0], "")
            for whole, name in _WHOLE.findall(text)
        }
        for where, names in _FROM.findall(text):
            bound |= {local or name: (where, name) for name, local in _NAME.findall(_COMMENT.sub("", names))}
        chains = (tuple(chain.split(".")) for chain in set(_DOTTED.findall(text)))
        return cls(bound, frozenset(chain for chain in chains if chain[0] in bound))


@dataclass(frozen=True)
class NameGraph:
    """Which files name what others define.

    >>> graph = NameGraph({
    ...     "sdk/count.py": "class Count: pass",
    ...     "sdk/__init__.py": "from headrace.sdk.count import Count",
    ...     "sdk/user.py": "from headrace.sdk import Count",
    ...     "tests/test_count.py": "import headrace.sdk as beam\\nbeam.Count()",
    ...     "tests/test_user.py": "from headrace.sdk.user import anything",
    ... })
    >>> graph.tests_of(["sdk/count.py"])
    {'tests/test_count.py': 1, 'tests/test_user.py': 2}
    """

    texts: Mapping[str, str] = field(repr=False)
    """Files by their paths in the repository."""

    @classmethod
    def of_the_checkout(cls) -> NameGraph:
        """The graph of all Python files that are part of the repository; symbolic links are left out."""
        paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.resolve() == path)
        return cls({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths})

    def tests_of(self, targets: Collection[str]) -> dict[str, int]:
        """Test modules, nearest first, with the number of steps from name to name by which they reach a target."""
        distances, front = dict.fromkeys(targets, 0), list(targets)
        while front:
            front = [path for before in front for path in self._named_by.get(before, ()) if path not in distances]
            distances |= {path: 1 + max(distances.values()) for path in front}
        found = {path: distance for path, distance in distances.items() if distance and is_test(path)}
        return dict(sorted(found.items(), key=lambda item: (item[1], _folder_distance(item[0], targets), item[0])))

    @cached_property
    def _modules(self) -> dict[str, _Module]:
        return {module_name(path): _Module.of(text) for path, text in self.texts.items()}

    @cached_property
    def _named_by(self) -> dict[str, set[str]]:
        """A file, and the files that name what it defines; not packages, which pass names on."""
        paths = {module_name(path): path for path in self.texts}
        found: dict[str, set[str]] = {}
        for path in (path for path in self.texts if Path(path).name != "__init__.py"):
            for module in self._named(self._modules[module_name(path)]):
                if module in paths and paths[module] != path:
                    found.setdefault(paths[module], set()).add(path)
        return found

    def _named(self, module: _Module) -> Iterator[str]:
        for where, name in module.bound.values():
            yield self._defining(where, [name] if name else [])
        for first, *rest in module.chains:
            where, name = module.bound[first]
            yield self._defining(where, [name, *rest] if name else rest)

    def _defining(self, where: str, names: Iterable[str]) -> str:
        """The module that defines the thing with these names, one in the other, below a module."""
        names, passed = list(names), set[tuple[str, str]]()
        while names and where in self._modules:
            if f"{where}.{names[0]}" in self._modules:
                where = f"{where}.{names.pop(0)}"
            elif (link := self._modules[where].bound.get(names[0])) and (where, names[0]) not in passed:
                passed.add((where, names[0]))
                where, names = link[0], [*filter(None, link[1:]), *names[1:]]
            else:
                break
        return where


def _folder_distance(test: str, targets: Iterable[str]) -> int:
    """Steps in the tree of folders from that of a test to the one named after a target's folder.

    >>> _folder_distance("tests/unit/sdk/io/test_text.py", ["sdk/io/text/csv.py"])
    1
    """
    folder = Path(*Path(test).parts[2:-1])
    return min(_steps(folder, Path(target).parent) for target in targets)


def _steps(one: Path, other: Path) -> int:
    shared = len({one, *one.parents} & {other, *other.parents}) - 1
    return len(one.parts) + len(other.parts) - 2 * shared
