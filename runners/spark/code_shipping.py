"""Makes headrace and the modules of the user's program importable in Spark's Python workers.

Workers on this machine get the search path of this program. Workers on other machines get two zip files: the headrace
package, and the modules that the program has imported from its own folders
(`headrace.runners.spark.program_modules`). The main module is in neither: functions and classes of the main module that
a pipeline uses are pickled with the pipeline.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark.sql import SparkSession

from headrace.runners.spark.cluster.cluster import cluster_of
from headrace.runners.spark.program_modules import Files, is_own, program_files
from headrace.runners.spark.pyspark_private import (
    set_worker_python,
    worker_environment,
    worker_python,
)
from headrace.runners.spark.session import engine_session, state_of
from headrace.runners.spark.worker.process import PROGRAM_PATH


def prepare_workers(session: SparkSession) -> None:
    """Make the modules that this program imports importable in the workers of the session."""
    cluster = cluster_of(session)
    if cluster.is_local():
        _use_this_python(session)
        return
    sessions = [session, engine_session(session)] if cluster.is_of_session else [session]
    for name, files in (("headrace", package_files()), ("program", program_files())):
        data = _digest(files)
        if files and data not in state_of(session).sent:
            state_of(session).sent.add(data)
            for each in sessions:
                cluster_of(each).send_modules(f"{name}-{data}.zip", partial(zipped, files))


def _use_this_python(session: SparkSession) -> None:
    """Make workers run this interpreter, which is certain to have the installed packages, with its search path.

    By default Spark uses the interpreter that PYSPARK_PYTHON named when the session was made, else `python3`.
    """
    if shutil.which(worker_python(session)) != sys.executable:
        set_worker_python(session, sys.executable)
    environment = worker_environment(session)
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
