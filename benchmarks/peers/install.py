"""Make the environments of other frameworks: `python -m benchmarks.peers.install`, or with the names of some.

Each has the packages that its file in `requirements/` pins, for Python 3.11. What is complete is not made again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Annotated

import typer

from benchmarks.peers.environment import ENVIRONMENTS, Environment
from benchmarks.report import console


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(ENVIRONMENTS)}; all without")] = None,
) -> None:
    """Install frameworks to compare with, each in an environment of its own."""
    for name in names or ENVIRONMENTS:
        if name not in ENVIRONMENTS:
            raise typer.BadParameter(f"there is no framework {name!r} here: name some of {', '.join(ENVIRONMENTS)}")
        install(ENVIRONMENTS[name])


def install(environment: Environment) -> None:
    """Make the environment, unless it is complete."""
    if environment.complete():
        console.print(f"{environment.name}: is in {environment.folder}")
        return
    console.print(f"{environment.name}: installing into {environment.folder} (some minutes)")
    shutil.rmtree(environment.folder, ignore_errors=True)
    _run(sys.executable, "-m", "venv", str(environment.folder))
    _run(str(environment.python), "-m", "pip", "install", "--quiet", "-r", str(environment.requirements))
    environment.finish()


def _run(*command: str) -> None:
    if subprocess.run(command).returncode:
        console.print(f"failed: {' '.join(command)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
