"""Makes headrace and the modules of the user's program importable in Spark's Python workers.

Workers on this machine get the search path of this program. Workers on other machines get two zip files: the headrace
package, and the modules that the program has imported from its own folders. The main module is in neither: functions
and classes of the main module that a pipeline uses are pickled with the pipeline.

The modules of the program are those among all imported ones that no installer has put there. Whether a module is
installed is decided by the metadata that installers write, not by its folder: `.pth` files, PYTHONPATH and `pip install
--target` make installed packages available outside of site-packages. A project that is installed as editable belongs to
the program, because its files exist on this machine only.
"""

from __future__ import annotations

import logging
import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, partial
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark.sql import SparkSession

from headrace.runners.spark.cluster.cluster import Cluster, cluster_of
from headrace.runners.spark.errors import reason, require_answer
from headrace.runners.spark.jobs.executor_checks import require_installed
from headrace.runners.spark.session import engine_sibling, state_of
from headrace.runners.spark.worker.process import PROGRAM_PATH

_log = logging.getLogger(__name__)
Files = dict[str, Path]
"""Maps a name in the zip to a file on this machine."""
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


def prepare_workers(session: SparkSession) -> None:
    """Make the modules that this program imports importable in the workers of the session."""
    cluster = cluster_of(session)
    if cluster.is_local():
        _use_this_python(cluster)
        return
    sibling = engine_sibling(session) if cluster.is_of_session else None
    program = program_files()
    try:
        for name, files in (("headrace", package_files()), ("program", program)):
            _send(name, files, session, sibling)
    except Exception as error:
        # What a session says that takes no files is not documented anywhere.
        require_answer(error)
        require_installed(session, sorted({Path(name).parts[0].removesuffix(".py") for name in program}), reason(error))


def _send(name: str, files: Files, session: SparkSession, sibling: SparkSession | None) -> None:
    """Send files to the executors, unless these have them."""
    digest = _digest(files)
    if files and digest not in state_of(session).sent:
        for each in (session, sibling):
            if each is not None:
                cluster_of(each).send_modules(f"{name}-{digest}.zip", partial(zipped, files))
        state_of(session).sent.add(digest)


def _use_this_python(cluster: Cluster) -> None:
    """Make workers run this interpreter, which is certain to have the installed packages, with its search path.

    By default Spark uses the interpreter that PYSPARK_PYTHON named when the session was made, else `python3`.
    """
    environment = cluster.use_python(sys.executable)
    given = environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", "")).split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [*given, *added_path()])))
    environment[PROGRAM_PATH] = "1"


def added_path() -> list[str]:
    """The entries of this program's search path that its interpreter does not have by itself.

    Those that it has, such as folders that `.pth` files name, stay where they are: in PYTHONPATH they would come before
    the installed packages, and hide some of them.
    """
    # An empty entry is the current folder.
    path = [entry or os.getcwd() for entry in sys.path]
    wanted = [str(_package_folder().parent), *filter(is_own, path)]
    usual = _usual_path(sys.executable)
    return [entry for entry in dict.fromkeys(wanted) if entry not in usual]


@cache
def _usual_path(interpreter: str) -> frozenset[str]:
    """The search path of an interpreter that is started without PYTHONPATH; empty if it cannot tell."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import sys; print('\\n'.join(sys.path))"
    try:
        asked = subprocess.run([interpreter, "-c", code], env=environment, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(asked.stdout.splitlines())


def _package_folder() -> Path:
    """Return the folder from which Python has imported the headrace package."""
    file = sys.modules["headrace"].__file__
    assert file is not None, "the package has an __init__.py"
    return Path(file).absolute().parent


def package_files() -> Files:
    """Return the files of the headrace package, with its data; symbolic links to folders are followed."""
    root = _package_folder()
    found = {}
    for folder, _, names in os.walk(root, followlinks=True):
        for name in names:
            path = Path(folder) / name
            if path.suffix != ".pyc":
                found[(Path("headrace") / path.relative_to(root)).as_posix()] = path
    return found


def _digest(files: Files) -> str:
    digest = blake2b(digest_size=8)
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name].read_bytes() + b"\0")
    return digest.hexdigest()


def zipped(files: Files, path: Path) -> None:
    """Write files into a zip at `path`; equal files give equal bytes."""
    # Python finds a package without an `__init__.py` in a zip only if its folder is an entry.
    folders = {f"{parent}/" for name in files for parent in Path(name).parents if parent.name}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for folder in sorted(folders):
            archive.writestr(ZipInfo(folder), b"")
        for name in sorted(files):
            archive.writestr(ZipInfo(name), files[name].read_bytes(), ZIP_DEFLATED)


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
    compiled = {found.top: found.file for found in own if found.file.suffix != ".py"}
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
