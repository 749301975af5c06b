"""The end of a command: an error message for people and an exit code for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from headrace.lowlevel.errors import FencedError, HeadraceError
from headrace.lowlevel.storage.object_store import PlaceError


class Ending(IntEnum):
    """Exit codes of commands."""

    DONE = 0
    FAILED = 1
    """The pipeline or the engine raised an error; committed epochs stay committed."""
    MISUSED = 2
    """The arguments name an object that does not exist, or cannot be used together; nothing has run."""
    REPLACED = 3
    """Another driver has taken the checkpoint over."""
    INTERRUPTED = 130
    """The user pressed Ctrl-C; the same command continues from the last commit."""


errors = Console(stderr=True, highlight=False)


class MisuseError(Exception):
    """The arguments of a command cannot be used. The message names the remedy."""


@contextmanager
def endings() -> Iterator[None]:
    """Turn an error that is raised inside into a message on standard error and an exit code."""
    try:
        yield
    except (MisuseError, PlaceError) as error:
        raise _exit_with(str(error), Ending.MISUSED) from error
    except FencedError as error:
        raise _exit_with(str(error), Ending.REPLACED) from error
    except HeadraceError as error:
        raise _exit_with(str(error), Ending.FAILED) from error
    except KeyboardInterrupt as stop:
        print_message(errors, "interrupted: nothing has run")
        raise typer.Exit(Ending.INTERRUPTED) from stop


@contextmanager
def as_misuse(*kinds: type[Exception]) -> Iterator[None]:
    """Turn an error of these kinds that is raised inside into a `MisuseError` of the same text."""
    try:
        yield
    except kinds as error:
        raise MisuseError(str(error)) from error


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Turn an error that is raised while the file of --output is written into a `MisuseError`."""
    try:
        yield
    except OSError as error:
        raise MisuseError(
            f"--output {output} cannot be written ({error.strerror}); give a file in a folder that exists and that you "
            "may write to"
        ) from error


def _exit_with(message: str, ending: Ending) -> typer.Exit:
    print_message(errors, Text("error: ", style="bold red") + Text(message))
    return typer.Exit(ending)


def print_message(console: Console, message: Text | str) -> None:
    """Print a message: wrapped between words at a terminal, else on one line, for programs that read the output."""
    console.print(message, soft_wrap=not console.is_terminal, markup=False)
