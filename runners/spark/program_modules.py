"""Finds the modules of the user's program: those modules among all imported ones that no installer has put there.

Whether a module is installed is decided by the metadata that installers write, not by its folder: `.pth` files,
PYTHONPATH and `pip install --target` make installed packages available outside of site-packages. A project that is
installed as editable belongs to the program, because its files exist on this machine only.
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
"""Maps a name in the zip to a file on this machine."""

_PLACES = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


class _Own(NamedTuple):
    """A module that belongs to the program."""

    top: str
    """First part of the module's dotted name: its top-level package or module."""
    name: str
    """Path of the module's file in the zip."""
    file: Path


def program_files() -> Files:
    """Return the files of all imported modules that are not installed.

    A package with compiled modules is left out and named in a warning: Python cannot load compiled modules from a zip.
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
    """Return whether a file or folder exists outside of the folders of Python, of installers and of Spark."""
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
    """Return whether the module at `path` is installed in `root`, a folder of the search path.

    A file inside an installed package counts as installed even if no installer lists it: if such a file were sent
    alone, it would hide the rest of the package.
    """
    known = _installed_files(root)
    folders = [folder for folder in reversed(path.parents) if folder != root and folder.is_relative_to(root)]
    packages = [package for folder in folders if (package := folder / "__init__.py").exists()]
    return (packages[0] if packages else path) in known or root / path.relative_to(root).parts[0] in known


@cache
def _installed_files(root: Path) -> frozenset[Path]:
    """Return the files that installers put into `root`, a folder of the search path.

    For a distribution that lists no files, the result has its top-level packages and modules.
    """
    found: set[Path] = set()
    for distribution in distributions(path=[str(root)]):
        if distribution.read_text("RECORD"):
            found.update(Path(os.path.normpath(root / str(file))) for file in distribution.files or ())
        elif not _is_beside_sources(distribution, root):
            found.update(root / name for top in _top_level(distribution) for name in (top, f"{top}.py"))
    return frozenset(found)


def _is_beside_sources(distribution: Distribution, root: Path) -> bool:
    """Return whether these metadata were left beside the source code of a project by a build of the project."""
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
