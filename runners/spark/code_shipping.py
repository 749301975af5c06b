"""What Python needs to import in the workers: headrace itself, and the modules of the program that runs.

On this machine the workers get this program's own search path. Other machines get files: a zip with the package, and
one with the modules that the program has imported from its own folders (`headrace.runners.spark.ownfiles`). The main
program is neither: what a pipeline uses of it travels with the pipeline.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark.sql import SparkSession

import headrace
from headrace.runners.spark.ownfiles import Files, is_own, program_files
from headrace.runners.spark.session import is_local


def prepare_workers(session: SparkSession) -> None:
    """Let the session's workers import what this program imports."""
    if is_local(session):
        _use_this_python(session)
        return
    sent: set[str] = session.__dict__.setdefault("_headrace_sent", set())
    for name, files in (("headrace", package_files()), ("program", program_files())):
        data = _digest(files)
        if files and data not in sent:
            sent.add(data)
            session.sparkContext.addPyFile(str(zipped(files, _folder(session) / f"{name}-{data}.zip")))


def _folder(session: SparkSession) -> Path:
    """A new folder for a file that executors may fetch as long as the session lasts.

    It lies in the temporary folder of the session's Java process, which that process deletes when it ends, also after
    this one was killed.
    """
    return Path(tempfile.mkdtemp(prefix="headrace-", dir=session.sparkContext._temp_dir))


def _use_this_python(session: SparkSession) -> None:
    """Workers run under this interpreter, as only it is sure to have the packages, and look where it looks.

    Spark takes what PYSPARK_PYTHON named when the session was made, by default whatever `python3` is.
    """
    context = session.sparkContext
    if shutil.which(context.pythonExec) != sys.executable:
        context.pythonExec = sys.executable
    given = context.environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", "")).split(os.pathsep)
    own = [str(Path(headrace.__file__).absolute().parents[1]), *(entry for entry in sys.path if is_own(entry))]
    context.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [*given, *own])))


def package_files() -> Files:
    """The files of the headrace package, those behind its symbolic links included."""
    root = Path(headrace.__file__).absolute().parent
    found = {}
    for folder, _, names in os.walk(root, followlinks=True):
        for name in names:
            path = Path(folder) / name
            if path.suffix in (".py", ".typed", ".properties"):
                found[(Path("headrace") / path.relative_to(root)).as_posix()] = path
    return found


def _digest(files: Files) -> str:
    digest = blake2b(digest_size=8)
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name].read_bytes() + b"\0")
    return digest.hexdigest()


def zipped(files: Files, path: Path) -> Path:
    """Write the files into a zip; the same files give the same bytes."""
    # Python finds a package without an `__init__.py` in a zip only if its folder is an entry.
    folders = {f"{parent}/" for name in files for parent in Path(name).parents if parent.name}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for folder in sorted(folders):
            archive.writestr(ZipInfo(folder), b"")
        for name in sorted(files):
            archive.writestr(ZipInfo(name), files[name].read_bytes(), ZIP_DEFLATED)
    return path
