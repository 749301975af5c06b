"""A row in the table of options: what values an option takes, what it means, and who reads it.

The classes of `headrace.options.pipeline_options` are the table. Its rows become the flags of the command line, the
page `docs/options.md`, and the fields of the engine's `RunOptions` with their defaults and checks. In flags,
`--name=value`, hyphens and underscores count as the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar, cast, overload

from headrace.options.value_provider import RuntimeValueProvider, StaticValueProvider

ValueT = TypeVar("ValueT")


class _OptionsView(Protocol):
    """The `PipelineOptions` that have an option's value."""

    def __getattr__(self, name: str) -> object: ...


def _is_any(value: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ValueKind(Generic[ValueT]):
    """The kind of values that an option takes: how a flag is parsed, and which values the engine accepts."""

    arguments: Mapping[str, object]
    """Arguments of `ArgumentParser.add_argument`; the name of the value (`metavar`) says its unit."""
    fits: Callable[[object], bool] = _is_any
    """Whether the engine accepts a value. It always accepts None, and then chooses the value itself."""
    remedy: str = ""
    """What the engine accepts, for the message of an error."""
    flag: str | None = "--{}"
    """The flag, with a place for the option's name; None if the option is a keyword only."""
    shift: int = 0
    """Binary digits by which the engine's value is longer, as its unit is smaller."""
    default: object = None
    """The value if the option is not given, unless its row has another one."""


class Option(Generic[ValueT]):
    """A row: an option, declared as an attribute of a subclass of `PipelineOptions`, whose views have its value there.

    Args:
        kind: The kind of its values.
        meaning: Its meaning, as `headrace options` and `docs/options.md` have it.
        readers: Paths of the modules that read its value, separated by spaces; empty for an option without effect.
        default: The value if the option is not given, unless it is that of the kind. A view then has None, unless the
            option is a switch.
    """

    def __init__(self, kind: ValueKind[ValueT], meaning: str, readers: str, default: object = None) -> None:
        self.kind, self.meaning, self.readers = kind, meaning, readers.split()
        self.default = kind.default if default is None else default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, view: None, owner: type) -> Self: ...
    @overload
    def __get__(self, view: _OptionsView, owner: type) -> ValueT: ...
    def __get__(self, view: _OptionsView | None, owner: type) -> Self | ValueT:
        return self if view is None else cast(ValueT, view.__getattr__(self.name))

    def __set__(self, view: _OptionsView, value: ValueT) -> None:
        # For type checkers: `PipelineOptions.__setattr__` sets all options.
        setattr(view, self.name, value)

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the flag to a parser, or the default of an option without a flag."""
        default = self.default if isinstance(self.default, bool) else None
        if self.kind.flag is None:
            parser.set_defaults(**{self.name: default})
            return
        arguments = cast("dict[str, Any]", self.kind.arguments)
        flag = self.kind.flag.format(self.name)
        parser.add_argument(flag, dest=self.name, default=default, help=self.meaning, **arguments)

    def in_engine(self, value: object) -> object:
        """The value in the engine's unit.

        >>> Option(MEBIBYTES, "size of a cache", "").in_engine(2)
        2097152
        """
        return value << self.kind.shift if isinstance(value, int) and self.kind.shift else value

    def check(self, name: str, value: object) -> None:
        """Check a value in the engine's unit; `name` is the engine's name of the option.

        Raises:
            ValueError: The engine does not accept the value.
        """
        if value is not None and not self.kind.fits(value):
            spelled = name if name == self.name else f"{name} (--{self.name})"
            raise ValueError(f"{spelled} is {value!r:.200}; give {self.kind.remedy}")


def declared(by: type) -> list[Option[object]]:
    """The options that a class itself declares as attributes."""
    return [each for each in vars(by).values() if isinstance(each, Option)]


def option_field(option: Option[Any], **more: Any) -> Any:
    """A field of a dataclass of the engine that has the default and the check of an option.

    Args:
        option: The option.
        **more: More arguments of `dataclasses.field`.
    """
    return field(default=option.in_engine(option.default), metadata={"option": option}, **more)


def _number(value: object) -> float:
    """Return a number unchanged; for any other object, return minus infinity, which no kind accepts."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and _number(value) >= least


def _seconds(fits: Callable[[object], bool], remedy: str) -> ValueKind[float | None]:
    return ValueKind({"type": float, "metavar": "SECONDS"}, fits, remedy)


SWITCH: ValueKind[bool] = ValueKind({"action": "store_true"}, default=False)
TWO_WAY_SWITCH: ValueKind[bool] = ValueKind({"action": argparse.BooleanOptionalAction}, default=True)
OFF_SWITCH: ValueKind[bool] = ValueKind({"action": "store_false"}, flag="--no_{}", default=True)
COUNT: ValueKind[int | None] = ValueKind(
    {"type": int, "metavar": "COUNT"}, lambda value: _is_whole(value, 1), "a whole number of at least 1"
)
MEBIBYTES: ValueKind[int | None] = ValueKind(
    {"type": int, "metavar": "MIB"},
    lambda value: _is_whole(value, 0),
    "a number of bytes, or 0 to keep nothing",
    shift=20,
)
SECONDS: ValueKind[float | None] = _seconds(lambda value: _number(value) >= 0, "0 or more seconds")
AIM: ValueKind[float | None] = _seconds(lambda value: _number(value) > 0, "seconds, more than 0, or None for no aim")
PLACE: ValueKind[str | None] = ValueKind(
    {"metavar": "PLACE"}, lambda value: isinstance(value, str) and value != "", "the directory or URL as text"
)
FILE: ValueKind[str | None] = ValueKind({"metavar": "FILE"})
NAME: ValueKind[str | None] = ValueKind({"metavar": "NAME"})
LABELS: ValueKind[list[str] | None] = ValueKind({"action": "append", "metavar": "LABEL"}, default=())
LABELS_OR_ALL: ValueKind[bool | str | Sequence[str] | None] = ValueKind(
    {"action": "append", "nargs": "?", "const": "", "metavar": "LABEL"}
)
FUNCTION: ValueKind[Callable[..., None] | bool | None] = ValueKind({}, flag=None)


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
