"""For the API pages: sessions in docstrings become code, names become links, options have types, overrides go."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import griffe

from headrace.options import option as kinds
from headrace.options import pipeline_options

_SESSION = re.compile(r"^( *)>>> .*(?:\n(?! *\n).+)*", re.MULTILINE)
_OVERRIDE = re.compile(r"See `[\w.]+`\.?")
_TRIGGER = "on_elements on_merge should_fire on_fire wake_at has_ontime_pane may_finish continuation quiet_until_end "
_TRIGGER += "needs_values uses_wall_time"
_SHOWN_WITH = {
    **dict.fromkeys(_TRIGGER.split(), "Trigger"),
    **dict.fromkeys(("expand", "default_label"), "PTransform"),
    **dict.fromkeys(("file_format", "tolerant", "aspect"), ""),
}
"""Member that the engine calls -> the class on whose entry it is shown; each subclass has it, too. Empty for none."""
_PAGES = Path(__file__).parents[1] / "api"


def documented() -> dict[str, str]:
    """Name -> path of everything on an API page, without names that stand for several things."""
    paths = [path for page in _PAGES.glob("*.md") for path in re.findall(r"^::: (\S+)$", page.read_text(), re.M)]
    names = Counter(path.rpartition(".")[2] for path in paths)
    return {name: path for path in paths if names[name := path.rpartition(".")[2]] == 1}


def fenced(text: str) -> str:
    r"""The text with a fence around each session (`>>>`), which Markdown would take for a quotation.

    >>> fenced("A sum.\n\n>>> 1 + 1\n2\n")
    'A sum.\n\n```pycon\n>>> 1 + 1\n2\n```\n'
    """
    return _SESSION.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


def linked(text: str, paths: dict[str, str], own: str) -> str:
    """The text with names in backquotes as links to where they are documented, except for the object's own name.

    >>> linked("See `Timer` and `str`.", {"Timer": "headrace.lowlevel.Timer"}, "Context")
    'See [`Timer`][headrace.lowlevel.Timer] and `str`.'
    """
    known = "|".join(sorted(paths.keys() - {own}, key=len, reverse=True))
    # A name that is no word of English, alone or with a member behind it.
    name = re.compile(rf"(?<![\[`])`(({known})(?:\.\w+)?)`(?![`\]])")
    return name.sub(lambda found: f"[`{found[1]}`][{paths[found[2]]}]", text)


def is_override(text: str) -> bool:
    """Whether a docstring only refers to the one of a base class, as in "See `Coder`."."""
    return _OVERRIDE.fullmatch(text.strip()) is not None


def default_of(made: griffe.Expr | str | None) -> griffe.Expr | str | None:
    """The default of a field of `RunOptions` that is made of a row in the table of options; anything else as it is.

    >>> default_of("option_field(EngineOptions.cache_mb)"), default_of("None")
    ('67108864', 'None')
    """
    found = re.match(r"option_field\(EngineOptions\.(\w+)", str(made))
    if found is None:
        return made
    option = getattr(pipeline_options.EngineOptions, found[1])
    return repr(option.in_engine(option.default))


def type_of(row: str) -> str | None:
    """The type of an option's value; None for what is no row in the table of options.

    >>> type_of("Option(COUNT, 'number of key intervals', '')"), type_of("5")
    ('int | None', None)
    """
    kind = re.match(r"Option\((\w+)", row)
    return kind and kinds.__annotations__[kind[1]].removeprefix("ValueKind[").removesuffix("]")


class Docstrings(griffe.Extension):
    """Changes the docstrings of every object, and drops members that say nothing new."""

    def __init__(self) -> None:
        self._paths = {name: path for name, path in documented().items() if name[0].isupper()}

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Once an object is known with all that is in it."""
        if obj.is_class:
            for name, member in list(obj.members.items()):
                text = member.docstring.value if not member.is_alias and member.docstring is not None else ""
                if is_override(text) or _SHOWN_WITH.get(name, obj.name) != obj.name:
                    obj.del_member(name)
        if obj.is_attribute and (of_value := type_of(str(obj.value))) is not None:
            obj.annotation, obj.value = of_value, None
        elif obj.is_attribute:
            obj.value = default_of(obj.value)
        elif obj.is_function:
            for parameter in obj.parameters:
                parameter.default = default_of(parameter.default)
        if obj.docstring is not None:
            obj.docstring.value = fenced(linked(obj.docstring.value, self._paths, obj.name))
