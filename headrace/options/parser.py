"""Flags of options: `--name=value`, in which hyphens and underscores count as the same."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

from headrace.options.value_provider import RuntimeValueProvider, StaticValueProvider

KindT = TypeVar("KindT")


class Parser(argparse.ArgumentParser):
    """One that raises instead of ending the program; of two options of one name it has the later one."""

    def __init__(self, **more: Any) -> None:
        # Abbreviations are off: the start of one option's name may be an option of another part of the program.
        super().__init__(**{"add_help": False, "allow_abbrev": False, "conflict_handler": "resolve", **more})

    def error(self, message: str) -> NoReturn:
        """Raise `ValueError`."""
        # argparse's own error, which is being handled, says the same.
        raise ValueError(f"options of the pipeline: {message}; `headrace options` says what each takes") from None

    def add_value_provider_argument(self, *names: str, **arguments: object) -> None:
        """Declare an option whose value is a `ValueProvider`: a static one where it is given, else a runtime one.

        Args:
            *names: As for `add_argument`.
            **arguments: As for `add_argument`.
        """
        kind = cast(Callable[[str], object], arguments.get("type") or str)
        option = next((name for name in names if name.startswith("--")), names[0]).lstrip("-")
        if not names[0].startswith("-"):
            arguments.setdefault("nargs", "?")
        arguments["default"] = RuntimeValueProvider(option, kind, arguments.get("default"))
        arguments["type"] = partial(StaticValueProvider, kind)
        self.add_argument(*names, **cast("dict[str, Any]", arguments))

    def takes_value(self, name: str) -> bool | None:
        """Whether an option must have a value; None where it is not declared."""
        declared = {underscored(string): action for string, action in self._option_string_actions.items()}
        action = declared.get(underscored(name))
        return None if action is None else action.nargs is None

    def without_defaults(self) -> Parser:
        """The same, so that only those options get something that flags are about."""
        for action in self._actions:
            action.default, action.required = argparse.SUPPRESS, False
        self._defaults.clear()
        return self

    def known(self, flags: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """What its options get, and the flags that are none of them. Hyphens and underscores count as the same."""
        declared = {underscored(string): string for string in self._option_string_actions}
        return self.parse_known_args([_renamed(flag, declared) for flag in flags])


def underscored(name: str) -> str:
    """A flag with underscores in the place of hyphens.

    >>> underscored("--allow-removed")
    '--allow_removed'
    """
    return "--" + name[2:].replace("-", "_") if name.startswith("--") else name


def _renamed(flag: str, declared: Mapping[str, str]) -> str:
    name, equals, value = flag.partition("=")
    return declared.get(underscored(name), name) + equals + value


def defaults_of(parser: argparse.ArgumentParser) -> dict[str, object]:
    """The options of a parser, and their defaults."""
    for action in parser._actions:
        action.required = False
    return vars(parser.parse_known_args([])[0])


def names_of(flags: Iterable[str]) -> Iterator[str]:
    """The names of flags, with underscores and without values.

    >>> list(names_of(["--allow-removed=Sum", "5"]))
    ['allow_removed']
    """
    return (flag.partition("=")[0].lstrip("-").replace("-", "_") for flag in flags if flag.startswith("-"))


def unknown_options(flags: Sequence[str]) -> dict[str, object]:
    """Values of flags that nobody declared: `--name=value`, `--name value` and `--name`."""
    options: dict[str, object] = {}
    name = None
    for flag in flags:
        if flag.startswith("--"):
            name, has_value, value = flag[2:].partition("=")
            options[name] = value if has_value else True
            name = None if has_value else name
        elif name is not None:
            options[name] = flag
            name = None
    return options


def subclasses(kind: type[KindT]) -> list[type[KindT]]:
    """All direct and indirect subclasses of a class."""
    return [found for direct in kind.__subclasses__() for found in (direct, *subclasses(direct))]
