"""Environments with other packages of Spark: a client of Spark Connect, or a whole Spark that has a server.

They are in `out/`, with what headrace needs as pinned, and are made once. The product comes from the checkout.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
DATABRICKS = {"15.4": "3.11", "16.4": "3.12", "17.3": "3.12"}
"""Releases of databricks-connect -> the Python that they need."""
_NEEDED = r"(?:cloudpickle|datasketches|lmdb|numpy|obstore|pandas|pyarrow|rbloom|rich|typer)"
_DATABRICKS_NEEDED = ("cloudpickle", "datasketches", "lmdb", "obstore", "rbloom", "rich", "typer")


def client(release: str) -> str:
    """The interpreter of an environment with pyspark-client of a release, such as 4.0; Spark 3.5 has none."""
    package = f"pyspark[connect]=={release}.*" if release.startswith("3") else f"pyspark-client=={release}.*"
    return _environment(f"client-{release}", sys.executable, [package, *_pinned()])


def server(release: str, python: str = "") -> str:
    """The interpreter of an environment with the whole Spark of a release, and of a Python, by default this one."""
    name = f"server-{release}-{python}" if python else f"server-{release}"
    return _environment(name, found(python) if python else sys.executable, [f"pyspark=={release}.*", *_pinned()])


def found(python: str) -> str:
    """An interpreter of a version such as 3.12: this one, one of pyenv or one on the path, else what uv finds."""
    if python == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{python}.*/bin/python"))
    # A `python3.12` of pyenv on the path may be one that only says which versions have it.
    return str(kept[-1]) if kept else shutil.which(f"python{python}") or python


def databricks(release: str) -> str:
    """The interpreter of an environment with databricks-connect. Its packages want versions of their own."""
    return _environment(
        f"databricks-{release}", found(DATABRICKS[release]), [f"databricks-connect=={release}.*", *_DATABRICKS_NEEDED]
    )


def _pinned() -> list[str]:
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    return [line.partition(";")[0].strip() for line in lines if re.match(rf"{_NEEDED}==", line)]


def _environment(name: str, python: str, packages: Sequence[str]) -> str:
    """The interpreter of an environment with these packages, which is made if another set was wanted before."""
    folder = ROOT / "out" / name
    stamp, wanted = folder / "packages", "\n".join([python, *packages])
    interpreter = str(folder / "bin" / "python")
    if not stamp.exists() or stamp.read_text() != wanted:
        _uv("venv", "--clear", "--python", python, str(folder))
        _uv("pip", "install", "--python", interpreter, *packages)
        stamp.write_text(wanted)
    return interpreter


def _uv(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
