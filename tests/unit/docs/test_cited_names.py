"""The documentation cites what exists: paths, dotted names, and for engineers also names in backticks and pictures."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.pages import DOCS, ROOT

PAGES = sorted(
    [*DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md"), *ROOT.glob("[!C]*.md"), ROOT / "benchmarks" / "README.md"]
)
"""But the changelog and the log of measurements, which are of their time."""
FOR_ENGINEERS = sorted([*(DOCS / "internals").glob("*.md"), DOCS / "glossary.md"])
PICTURES = sorted((DOCS / "internals").rglob("*.svg"))
NO_MODULES = {
    "headrace.rows",
    "headrace.runners.spark.job",
    "headrace.sdk.compile",
    "headrace.sdk.tracebacks",
    "headrace.stored",
}
"""Names of loggers, of a property of Spark's, and of the module that stored data name."""
_FOLDERS = "sdk|lowlevel|runners|headrace|tests|benchmarks|examples|docs"
_PATH = re.compile(rf"(?<![\w/.-])((?:{_FOLDERS})/[\w./-]*\w/?)(?:::(\w+))?")
_DOTTED = re.compile(r"\bheadrace(?:\.\w+)+")
_CODE = re.compile(r"`([^`\n]+)`")
_NAME = re.compile(r"[A-Z][A-Za-z]*[a-z][A-Za-z]*(?:\.\w+)?|\w+\(\)")
"""A class, a member of one, or a function that is called."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def missing_paths(text: str) -> Iterator[str]:
    """Paths of the checkout that are cited and are not there, and tests in them that are not."""
    for found in _PATH.finditer(text):
        path, name = ROOT / found[1], found[2]
        if not path.exists() or (name and not re.search(rf"\b(?:def|class) {name}\b", text_of(path))):
            yield found[0]


def is_importable(dotted: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    module, names = dotted, list[str]()
    while module:
        try:
            found: object = importlib.import_module(module)
        except ImportError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
            continue
        for name in names:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


@cache
def defined() -> frozenset[str]:
    """Names of all classes, functions and attributes of the product."""
    names: set[str] = set()
    for package in ("sdk", "lowlevel", "runners", "headrace/cli", "headrace/options"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(text_of(path))):
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    names.add(node.name)
                elif isinstance(node, ast.Attribute):
                    names.add(node.attr)
                elif isinstance(node, ast.Name):
                    names.add(node.id)
    return frozenset(names)


@cache
def loggers() -> frozenset[str]:
    """Names of loggers that are no modules."""
    sources = [text_of(path) for package in ("sdk", "lowlevel", "runners") for path in (ROOT / package).rglob("*.py")]
    return frozenset(name for source in sources for name in re.findall(r'getLogger\("(headrace[\w.]+)"\)', source))


def unknown_names(text: str) -> Iterator[str]:
    """Names in backticks that are classes, members or functions by their form, and that nothing in the product has."""
    for code in _CODE.findall(text):
        if _NAME.fullmatch(code):
            parts = code.removesuffix("()").split(".")
            if not defined().issuperset(parts):
                yield code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_cites_exists(page: Path) -> None:
    text = text_of(page)
    assert not list(missing_paths(text))
    named = set(_DOTTED.findall(text)) - NO_MODULES - loggers()
    assert not [name for name in named if not is_importable(name)]


@pytest.mark.parametrize("page", FOR_ENGINEERS, ids=lambda page: page.stem)
def test_the_names_on_a_page_for_engineers_exist(page: Path) -> None:
    assert not list(unknown_names(text_of(page)))


_ABBREVIATED = ("", "sdk/", "lowlevel/", "runners/", "runners/engine/", "runners/spark/")
"""Folders that pictures leave out."""
_IN_PICTURE = re.compile(r"<text[^>]*font-family[^>]*>([^<]+)</text>")


def missing_in_picture(svg: str) -> Iterator[str]:
    """Folders and modules that are in a picture, in the font of code, and are not there."""
    for text in _IN_PICTURE.findall(svg):
        for name in text.split(", "):
            paths = [ROOT / f"{folder}{name.replace('headrace.', 'headrace/')}" for folder in _ABBREVIATED]
            if not any(path.exists() or path.with_suffix(".py").exists() for path in paths):
                yield name


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_the_modules_in_a_picture_exist(picture: Path) -> None:
    svg = text_of(picture)
    assert _IN_PICTURE.search(svg)
    assert not list(missing_in_picture(svg))


def layers(package: str) -> list[set[str]]:
    """Folders and modules of a package by layer, top first, as import-linter checks them."""
    contracts = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    dotted = f"headrace.{package}".replace("/", ".")
    lines = next(contract["layers"] for contract in contracts if contract.get("containers") == [dotted])
    return [set(re.findall(r"\w+", line)) for line in lines]


AREAS = {
    "sdk": ((20, 620), (140, 580)),
    "runners/spark": ((660, 1040), (206, 420)),
    "runners/engine": ((660, 1040), (450, 560)),
    "lowlevel": ((20, 1060), (680, 900)),
}
"""Package -> what it has of the picture of the layers, across and down."""


@pytest.mark.parametrize("package", AREAS)
def test_the_picture_of_the_layers_is_what_is_checked(package: str) -> None:
    (left, right), (top, bottom) = AREAS[package]
    rows: dict[float, set[str]] = {}
    words = re.compile(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*font-family[^>]*>(\w+)<')
    for across, down, name in words.findall(text_of(DOCS / "internals/pictures/layers.svg")):
        if left < float(across) < right and top < float(down) < bottom:
            rows.setdefault(float(down), set()).add(name)
    drawn = [rows[down] for down in sorted(rows)]
    checked = layers(package)
    names = {name for names in drawn for name in names}
    assert drawn == [layer & names for layer in checked if layer & names]
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert folders <= names


def test_what_does_not_exist_is_found() -> None:
    assert list(missing_paths("`lowlevel/time.py`, sdk/nowhere.py, `tests/pages.py::nothing`")) == [
        "sdk/nowhere.py",
        "tests/pages.py::nothing",
    ]
    assert is_importable("headrace.lowlevel.time.Timestamp")
    assert not is_importable("headrace.lowlevel.time.Nothing")
    assert not is_importable("headrace.nowhere")
    assert list(unknown_names("`Timestamp`, `Pipeline.run`, `NoSuchClass`, `no_such_function()`")) == [
        "NoSuchClass",
        "no_such_function()",
    ]
    assert list(missing_in_picture('<text font-family="mono">state, nowhere/</text>')) == ["nowhere/"]
