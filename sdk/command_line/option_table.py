"""The table of options for readers: syntax, type, default and meaning of each option."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.sdk.option_flags import subclasses
from headrace.sdk.options import PipelineOptions

_KINDS: Mapping[object, str] = {int: "whole number", float: "number"}


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """A row of the table of options: one option.

    >>> from headrace.sdk.options import TypeOptions
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


def option_classes() -> list[type[PipelineOptions]]:
    """The subclasses of `PipelineOptions` that declare options, without duplicates."""
    return list(dict.fromkeys(kind for kind in subclasses(PipelineOptions) if "_add_argparse_args" in vars(kind)))


def entries(kind: type[PipelineOptions], defaults: Mapping[str, object] | None = None) -> list[OptionEntry]:
    """The options that a class itself declares, without those of its base classes.

    Args:
        kind: The class.
        defaults: Option name -> default, for options that are declared with the default None.
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
