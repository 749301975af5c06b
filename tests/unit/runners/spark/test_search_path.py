"""Workers on this machine find modules where the program does: installed ones are not hidden by folders behind them."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

import headrace

PROGRAM = """
import os, sys
from headrace.runners.spark.code_shipping import added_path
print(os.pathsep.join(added_path()))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a package in it, above folders that have another release of the package, and Headrace."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "env", symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "env")}))
    (packages / "many_releases.py").write_text("release = 'of the environment'")
    (folder / "below").mkdir()
    (folder / "below" / "many_releases.py").write_text("release = 'below'")
    below = folder / "below", Path(sysconfig.get_path("purelib")), Path(headrace.__file__).parents[1]
    (packages / "below.pth").write_text("\n".join(map(str, below)))
    return folder


def python(environment: Path, *arguments: str, **variables: str) -> str:
    command = [str(environment / "env" / "bin" / "python"), *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()


def test_a_folder_behind_the_installed_packages_hides_none(environment, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    added = python(environment, str(program))
    release = "import many_releases; print(many_releases.release)"
    assert python(environment, "-c", release, PYTHONPATH=added) == "of the environment"
    assert added == str(tmp_path)


def test_folders_that_the_program_has_added_are_there(environment, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"import sys\nsys.path.insert(0, {str(tmp_path / 'own')!r})\n{PROGRAM}")
    (tmp_path / "own").mkdir()
    given = str(tmp_path / "given")
    (tmp_path / "given").mkdir()
    added = python(environment, str(program), PYTHONPATH=given).split(":")
    assert added == [str(tmp_path / "own"), str(tmp_path), given]
