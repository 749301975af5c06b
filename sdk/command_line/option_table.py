"""Options as a reader needs them: how each is written, its type and default, and what it means."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.sdk.options import PipelineOptions, subclasses

_KINDS: Mapping[object, str] = {int: "whole number", float: "number"}


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """An option.

    >>> from headrace.sdk.options import TypeOptions
    >>> entry = entries(TypeOptions)[0]
    >>> entry.written, entry.kind, entry.default
    ('--allow_unsafe_triggers', 'switch', 'off')
    """

    written: str
    """With a word for its value that says the unit."""
    kind: str
    default: str
    meaning: str


def option_classes() -> list[type[PipelineOptions]]:
    """The classes that declare options, each once."""
    return list(dict.fromkeys(kind for kind in subclasses(PipelineOptions) if "_add_argparse_args" in vars(kind)))


def entries(kind: type[PipelineOptions], defaults: Mapping[str, object] | None = None) -> list[OptionEntry]:
    """The options that a class declares, its bases' left out.

    Args:
        kind: The class.
        defaults: Defaults of options that are None where they are declared.
    """
    parser = argparse.ArgumentParser(add_help=False)
    kind._add_argparse_args(parser)
    return [_entry(action, defaults or {}) for action in parser._actions if action.option_strings]


def _entry(action: argparse.Action, defaults: Mapping[str, object]) -> OptionEntry:
    strings = " / ".join("--" + string[2:].replace("-", "_") for string in action.option_strings)
    meaning = (action.help or "").replace(" (default: %(default)s)", "")
    if action.nargs == 0:
        on = action.default if len(action.option_strings) > 1 else not action.default and bool(action.const is False)
        return OptionEntry(strings, "switch", "on" if on else "off", meaning)
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    written = f"{strings}[={name}]" if action.nargs == "?" else f"{strings}={name}"
    kind = _KINDS.get(action.type, "text")
    default = defaults.get(action.dest) if action.default is None else action.default
    return OptionEntry(written, kind, "" if default is None else str(default), meaning)
