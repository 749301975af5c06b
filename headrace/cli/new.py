"""The command `headrace new`: makes a small project to start with, which has a test that passes."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.ending import MisuseError, endings

_TAKEN = sys.stdlib_module_names | {"headrace", "pyspark", "pytest"}
"""Names of modules that a program must not have: it would be imported in place of these modules."""
_FILES = ("NAME.py", "test_NAME.py", "scores.jsonl", "README.md")
"""The files of a project, whose contents are in the folder `new_project`; NAME stands for the name of the project."""


def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to make; the program gets its name.")],
) -> None:
    """Make a small project: a pipeline, some data and a test.

    Example: headrace new scores
    """
    name = folder.resolve().name
    with endings():
        if not name.isidentifier():
            raise MisuseError(
                f"{name!r} cannot be the name of a Python module, which is letters, digits and _ and does not begin "
                f"with a digit; try `headrace new {folder.with_name(_possible_name(name))}`"
            )
        if iskeyword(name) or name in _TAKEN:
            raise MisuseError(
                f"{name!r} is a word or a module of Python's or of Headrace's; try `headrace new "
                f"{folder.with_name(_possible_name(name))}`"
            )
        if folder.exists() and not folder.is_dir():
            raise MisuseError(f"{folder} is there and no folder; choose another name")
        if folder.exists() and any(folder.iterdir()):
            raise MisuseError(f"{folder} is there and not empty; choose another name, or empty it")
        try:
            _write(folder, name)
        except OSError as error:
            raise MisuseError(f"{folder} cannot be made ({error.strerror}); choose a place that can") from error
    typer.echo(f"next: cd {folder} && headrace run {name}.py --runner=LocalRunner")


def _possible_name(name: str) -> str:
    """Return a valid name for a module that is similar to an invalid one.

    >>> [_possible_name(name) for name in ("9lives", "my-lives", "class", "..")]
    ['lives', 'my_lives', 'class_', 'scores']
    """
    found = re.sub(r"\W+", "_", name).strip("_").lstrip("0123456789_") or "scores"
    return f"{found}_" if iskeyword(found) or found in _TAKEN else found


def _write(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for template in _FILES:
        text = files(__package__).joinpath("new_project", f"{template}.txt").read_text("utf-8")
        path = folder / template.replace("NAME", name)
        path.write_text(text.replace("NAME", name), encoding="utf-8")
        typer.echo(f"written: {path}")
