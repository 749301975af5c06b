"""The public names with their signatures, as `tests/golden/public_api.txt` keeps them: `python -m tests.publicapi`.

A change of that file is a change that programs see; `docs/internals/contributing.md` says which are allowed.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path

import headrace

GOLDEN = Path(__file__).parent / "golden" / "public_api.txt"
API = Path(__file__).parents[1] / "docs" / "api"
BEHIND = (
    "headrace.sdk",
    "headrace.runners",
    "headrace.absent_names",
    "headrace.cli",
    "headrace.lowlevel.",
    "headrace.options.beam_options",
    "headrace.options.option",
    "headrace.options.known_options",
    "headrace.options.option",
    "headrace.stored",
    "headrace.ui.",
    "headrace.__main__",
)
"""What programs do not import from."""
RUNNERS = [
    "headrace.runners",
    "headrace.runners.beam",
    "headrace.runners.interactive.interactive_beam",
    "headrace.runners.local",
    "headrace.runners.reporting",
    "headrace.runners.runner",
    "headrace.runners.sdf_utils",
    "headrace.runners.spark",
]


def public_modules() -> list[str]:
    found = [each.name for each in pkgutil.walk_packages(headrace.__path__, "headrace.")]
    return ["headrace", *(name for name in found if not name.startswith(BEHIND)), *RUNNERS]


def public_names() -> Iterator[tuple[str, object]]:
    """Every name that programs import, with what it is; of `typehints` not those that are Python's own."""
    for module in map(importlib.import_module, public_modules()):
        for name in module.__all__:
            found = getattr(module, name)
            pythons = getattr(found, "__module__", None) in ("typing", "collections.abc")
            if not inspect.ismodule(found) and not pythons:
                yield f"{module.__name__}.{name}", found


def documented_names() -> Iterator[tuple[str, object]]:
    """Every name on the API pages. Those that no public module has are of objects that a program is given."""
    for page in sorted(API.glob("*.md")):
        for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M):
            module, _, name = path.rpartition(".")
            yield path, getattr(importlib.import_module(module), name)


def listing() -> str:
    """A line for each name, and below a class one for each of its attributes; a second path of a thing is short."""
    lines: list[str] = []
    paths: dict[int, str] = {}
    found = dict(public_names())
    listed = set(map(id, found.values()))
    found.update(pair for pair in documented_names() if id(pair[1]) not in listed)
    names = sorted(found.items(), key=lambda pair: (pair[0].count("."), pair[0]))
    for path, what in names:
        if (inspect.isclass(what) or inspect.isfunction(what)) and what.__module__.startswith("headrace"):
            paths.setdefault(id(what), path)
    for path, what in names:
        first = paths.get(id(what), path)
        lines += _described(path, what, paths) if first == path else [f"{path} = {first}"]
    return "\n".join(lines) + "\n"


def _described(path: str, what: object, paths: dict[int, str]) -> Iterator[str]:
    if inspect.isclass(what) and not what.__module__.startswith("headrace"):
        yield f"{path} = {what.__module__}.{what.__name__}"
    elif inspect.isclass(what):
        bases = [paths[id(base)] for base in what.__mro__[1:] if id(base) in paths]
        yield f"class {path}{_signature(what)}" + (f" of {', '.join(bases)}" if bases else "")
        yield from (f"    {line}" for line in sorted(_attributes(what, paths)))
    elif callable(what) and not _is_type(what):
        yield f"def {path}{_signature(what)}"
    else:
        yield path


def _attributes(of: type, paths: dict[int, str]) -> Iterator[str]:
    """Those of the class and of the private classes that it is made of; a public base has lines of its own."""
    seen: set[str] = set()
    for base in of.__mro__:
        if not base.__module__.startswith("headrace") or (base is not of and id(base) in paths):
            continue
        names = {**vars(base), **dict.fromkeys(vars(base).get("__annotations__", {}))}
        for name, value in names.items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            yield f"{name}{_signature(function)}" if inspect.isfunction(function) else name


def _signature(of: object) -> str:
    if isinstance(of, EnumType):
        return ""
    try:
        told = str(inspect.signature(of))  # type: ignore[arg-type]  # anything that may be called; else it raises
    except (TypeError, ValueError):
        return ""
    told = re.sub(r" at 0x[0-9a-f]+", "", told)
    return re.sub(r"'Unpack\[(\w+)\]'", lambda found: _keywords(of, found[1]), told)


def _keywords(of: object, options: str) -> str:
    """The keyword arguments that a function or class takes by a `TypedDict` which its module has under that name."""
    taken = getattr(sys.modules[of.__module__], options).__annotations__
    return "{" + ", ".join(f"{name}: {getattr(kind, '__forward_arg__', kind)!r}" for name, kind in taken.items()) + "}"


def _is_type(what: object) -> bool:
    """Whether it is an alias of a type, which can be called, too."""
    return getattr(type(what), "__module__", "") in ("typing", "types", "collections.abc")


if __name__ == "__main__":
    GOLDEN.write_text(listing(), encoding="utf-8")
    print(f"written: {GOLDEN}")
