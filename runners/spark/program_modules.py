"""Which of the modules that a program has imported are its own: those that no installation owns.

A module counts as installed by what installers leave behind, wherever its folder stands on the search path: a `.pth`
file, PYTHONPATH and `pip install --target` lead to installed packages as well as site-packages does. A project that is
installed as editable is the program's own, as its files are on this machine only.
"""

from __future__ import annotations

import logging
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

_log = logging.getLogger(__name__)

Files = dict[str, Path]
"""Name in the zip -> file."""

_PLACES = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


class _Own(NamedTuple):
    """A module of the program's own."""

    top: str
    """Name of the package, or module, that it is found by."""
    name: str
    """In a zip."""
    file: Path


def program_files() -> Files:
    """The files of the modules that the program has imported and that are not installed.

    A package with compiled modules is left out and named in a warning: from a zip, Python cannot load those.
    """
    own = [found for module in list(sys.modules.values()) for found in _own_module(module)]
    compiled = {found.top: found.file for found in own if _is_compiled(found.file)}
    for top, file in sorted(compiled.items()):
        _log.warning(
            "package %r is not sent to the executors, as it has compiled parts (%s), which cannot be sent as files: "
            "install it in the executors' Python, as with pip install",
            *(top, file),
        )
    return {found.name: found.file for found in own if found.top not in compiled}


def is_own(path: str) -> bool:
    """Whether a file or folder is the program's: in no place of Python's, of its installers', or of Spark's."""
    whole = Path(path).absolute()
    return bool(path) and whole.exists() and not any(place in (whole, *whole.parents) for place in _installers_places())


def _own_module(module: ModuleType) -> Iterator[_Own]:
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    top = name.partition(".")[0]
    if name in ("", "__main__") or top == "headrace" or not str(file).endswith((".py", *EXTENSION_SUFFIXES)):
        return
    path = Path(str(file)).absolute()
    if not is_own(str(path)):
        return
    parts = name.split(".")
    within = len(parts) if path.stem == "__init__" else len(parts) - 1
    root = path.parents[min(within, len(path.parents) - 1)]
    if not _is_installed(path, root):
        yield _Own(top, "/".join(parts) + ("/__init__.py" if path.name == "__init__.py" else path.suffix), path)


def _is_compiled(path: Path) -> bool:
    return path.suffix != ".py"


def _is_installed(path: Path, root: Path) -> bool:
    """Whether an installer put a module into this folder of the search path.

    What belongs to a package goes with it, also files that no installer knows: sent alone, they would hide the rest.
    """
    known = _installed_files(root)
    folders = [folder for folder in reversed(path.parents) if folder != root and folder.is_relative_to(root)]
    packages = [package for folder in folders if (package := folder / "__init__.py").exists()]
    return (packages[0] if packages else path) in known or root / path.relative_to(root).parts[0] in known


@cache
def _installed_files(root: Path) -> frozenset[Path]:
    """Files that installers put into a folder of the search path; of those that list no files, what is at the top."""
    found: set[Path] = set()
    for distribution in distributions(path=[str(root)]):
        if distribution.read_text("RECORD"):
            found.update(Path(os.path.normpath(root / str(file))) for file in distribution.files or ())
        elif not _is_beside_sources(distribution, root):
            found.update(root / name for top in _top_level(distribution) for name in (top, f"{top}.py"))
    return frozenset(found)


def _is_beside_sources(distribution: Distribution, root: Path) -> bool:
    """Whether these are the metadata that building a project leaves beside its source code."""
    built = distribution.read_text("SOURCES.txt") and not distribution.read_text("installed-files.txt")
    return bool(built) and root.suffix != ".egg"


def _top_level(distribution: Distribution) -> list[str]:
    named = (distribution.read_text("top_level.txt") or "").split()
    return named or [str(distribution.metadata["Name"]).replace("-", "_")]


@cache
def _installers_places() -> frozenset[Path]:
    places = {*(sysconfig.get_paths()[name] for name in _PLACES), *site.getsitepackages(), site.getusersitepackages()}
    places |= {os.environ[name] for name in ("SPARK_HOME",) if name in os.environ}
    return frozenset(Path(place).absolute() for place in places)
