"""The command `headrace options`: lists the options of a pipeline, from the classes that declare them."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from textwrap import fill
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from headrace.cli.ending import MisuseError, endings
from headrace.cli.target import load
from headrace.options.known_options import VARIABLES
from headrace.options.option import Parser, declared
from headrace.options.pipeline_options import (
    EngineOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    TypeOptions,
    option_classes,
)
from headrace.options.value_provider import RuntimeValueProvider

_OURS: tuple[type[PipelineOptions], ...] = (EngineOptions, StandardOptions, TypeOptions, SetupOptions)
_IN = " " * 6


def options(
    target: Annotated[
        str | None, typer.Argument(metavar="[MODULE:PIPELINE]", help="A program whose own options are shown, too.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page of the documentation.")] = False,
) -> None:
    """List the options of a pipeline.

    Each is written --name=value behind `headrace run`, in PipelineOptions(["--name=value"]) and in error messages; in
    Python also PipelineOptions(name=value).

    Example: headrace options scores.py
    """
    with endings():
        if markdown and target is not None:
            raise MisuseError("--markdown writes the page about headrace itself; leave the program out")
        if markdown:
            typer.echo(page(), nl=False)
            return
        if target is not None:
            load(target, None, [])
        console = Console(highlight=False)
        own = [] if target is None else [kind for kind in option_classes() if kind not in _OURS and entries(kind)]
        for kind in (*_OURS, *own):
            console.print(Text(f"{kind.__name__}: {_about(kind)}", style="bold"))
            for entry in entries(kind):
                console.print(Text(f"  {entry.written}  ") + Text(_kind(entry), style="dim"))
                console.print(Text(fill(entry.meaning, console.width, initial_indent=_IN, subsequent_indent=_IN)))


def _about(kind: type[PipelineOptions]) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]


def _kind(entry: OptionEntry) -> str:
    return f"{entry.kind}, {entry.default}" if entry.default else entry.kind


def page() -> str:
    """Return the contents of `docs/options.md`."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield files(__package__).joinpath("options_head.md").read_text("utf-8")
    for kind in _OURS:
        yield f"## {kind.__name__}\n"
        yield f"{_about(kind)}\n"
        yield "| option | type | default | meaning |\n|---|---|---|---|"
        for entry in entries(kind):
            yield f"| `{entry.written}` | {entry.kind} | {entry.default} | {entry.meaning} |"
        yield ""
    yield "## Environment\n\n| variable | meaning |\n|---|---|"
    for name, meaning in VARIABLES.items():
        yield f"| `{name}` | {meaning} |"


_KINDS: Mapping[object, str] = {int: "whole number", float: "number"}


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """A row of the table of options: one option.

    >>> from headrace.options.pipeline_options import TypeOptions
    >>> entry = entries(TypeOptions)[0]
    >>> entry.written, entry.kind, entry.default
    ('--allow_unsafe_triggers', 'switch', 'off')
    """

    written: str
    """The flag, with a placeholder for the value that names the unit."""
    kind: str
    """`switch`, `whole number`, `number` or `text`."""
    default: str
    """The default as text; empty if the option has no default."""
    meaning: str


def entries(kind: type[PipelineOptions]) -> list[OptionEntry]:
    """The options that a class itself declares, without those of its base classes."""
    parser = Parser()
    kind._add_argparse_args(parser)
    defaults = {option.name: option.default for option in declared(kind)}
    return [_entry(action, defaults.get(action.dest)) for action in parser._actions if action.option_strings]


def _entry(action: argparse.Action, in_engine: object) -> OptionEntry:
    strings = " / ".join("--" + string[2:].replace("-", "_") for string in action.option_strings)
    meaning = (action.help or "").replace(" (default: %(default)s)", "")
    if action.nargs == 0:
        on = action.default if len(action.option_strings) > 1 else not action.default and bool(action.const is False)
        return OptionEntry(strings, "switch", "on" if on else "off", meaning)
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    written = f"{strings}[={name}]" if action.nargs == "?" else f"{strings}={name}"
    default = in_engine if action.default is None else action.default
    of_value: object = action.type
    if isinstance(default, RuntimeValueProvider):
        of_value, default = default.value_type, default.default_value
    kind = _KINDS.get(of_value, "text")
    return OptionEntry(written, kind, "" if default in (None, ()) else str(default), meaning)
