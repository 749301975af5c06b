"""How a command ends: what a person reads, and a number that a script can use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer
from rich.console import Console
from rich.text import Text

from headrace.lowlevel.errors import FencedError, HeadraceError
from headrace.lowlevel.store import PlaceError


class Ending(IntEnum):
    """Exit codes."""

    DONE = 0
    FAILED = 1
    """The pipeline or the engine raised; what was committed stays committed."""
    MISUSED = 2
    """Something that was asked for does not exist or makes no sense; nothing has run."""
    REPLACED = 3
    """Another driver has taken the checkpoint over."""
    INTERRUPTED = 130
    """By Ctrl-C; the same command goes on from the last commit."""


errors = Console(stderr=True, highlight=False)


class MisuseError(Exception):
    """What was asked for makes no sense; the message says what does."""


@contextmanager
def endings() -> Iterator[None]:
    """Turns what is raised inside into a message and an exit code."""
    try:
        yield
    except (MisuseError, PlaceError) as error:
        raise _end(str(error), Ending.MISUSED) from error
    except FencedError as error:
        raise _end(str(error), Ending.REPLACED) from error
    except HeadraceError as error:
        raise _end(str(error), Ending.FAILED) from error
    except KeyboardInterrupt as stop:
        say(errors, "interrupted: nothing has run")
        raise typer.Exit(Ending.INTERRUPTED) from stop


def _end(message: str, ending: Ending) -> typer.Exit:
    say(errors, Text("error: ", style="bold red") + Text(message))
    return typer.Exit(ending)


def say(console: Console, message: Text | str) -> None:
    """A message: folded between words at a terminal, and left as it is elsewhere, for programs that read it."""
    console.print(message, soft_wrap=not console.is_terminal, markup=False)
