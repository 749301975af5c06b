"""Finds the classes that stored data names: values of the program in state, and keys.

A class may have another module than when it was stored: it was moved, or the program was begun by `headrace run` and
is continued by `python`, where its main module is called `__main__`. Such a class is found by its qualified name, first
in the main program, then in the other modules of the program; not in installed packages, where a class of the same
name is likely another one.

While a program is loaded by somebody who needs its functions and steps, `with` blocks of its pipelines run nothing:
`headrace run`, `draw` and `explain` load a program to find its pipeline, and a worker of Spark imports the modules that
functions are from.
"""

from __future__ import annotations

import io
import pickle
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum, EnumType
from functools import lru_cache
from importlib import import_module
from os.path import dirname, realpath
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from headrace.lowlevel.errors import StoredClassError
from headrace.lowlevel.stored_names import MODULE, Maker, is_stored, stored_function

MAIN = "__main__"
_Form = tuple[str, tuple[str, ...]]
"""The kind of a class, such as "dataclass", and the names of its fields."""


class MainProgram(NamedTuple):
    """The two names of the module that the user runs."""

    module: str
    """Its name in this process."""
    alias: str
    """Its name if the program is run in the other way: by `python`, or by `headrace run`."""


_waiting: ContextVar[list[object] | None] = ContextVar("pipelines of with blocks that have not run", default=None)
_declared: MainProgram | None = None
_moved: dict[tuple[str, str], str] = {}
"""(stored module, qualified name) -> module that had the class when it was looked for."""
_REMEMBERED = 1_000
"""Number of classes whose form is known, and of those found under their stored names with their stored form."""
_unchanged: dict[tuple[str, str, _Form], object] = {}
"""(stored module, qualified name, form) -> the class, if it stands under this name and has this form."""


def main_program() -> MainProgram:
    """The names of the main program: those that were declared, else the ones that follow from `__main__`."""
    if _declared is not None:
        return _declared
    main = sys.modules.get(MAIN)
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    alias = spec.name if spec is not None else Path(file).stem if file is not None else MAIN
    return MainProgram(MAIN, alias)


def declare_main_program(main: MainProgram) -> None:
    """Say which module is the main program, where it does not follow from `__main__`: in a task, or a command."""
    global _declared
    _declared = main
    _unchanged.clear()


@contextmanager
def loading_program() -> Iterator[list[object]]:
    """Have the ends of `with` blocks run nothing; yields a list, to which each such block adds its pipeline.

    >>> with loading_program() as pipelines:
    ...     left_to_loader("a pipeline")
    True
    >>> pipelines, left_to_loader("another")
    (['a pipeline'], False)
    """
    pipelines: list[object] = []
    token = _waiting.set(pipelines)
    try:
        yield pipelines
    finally:
        _waiting.reset(token)


def left_to_loader(pipeline: object) -> bool:
    """Whether a program is being loaded, so that the pipeline is not to be run; its loader gets the pipeline."""
    waiting = _waiting.get()
    if waiting is not None:
        waiting.append(pipeline)
    return waiting is not None


def current_module(module: str) -> str:
    """The name under which a module is in this process: another one for the alias of the main program.

    >>> current_module("collections")
    'collections'
    """
    main = main_program()
    return main.module if module == main.alias and module != main.module and _is_main(main) else module


def _is_main(main: MainProgram) -> bool:
    """Whether the alias stands for the main program, and not for another module that was imported by this name."""
    other = sys.modules.get(main.alias)
    return other is None or main.alias == MAIN or _file(other) == _file(sys.modules.get(main.module))


def _file(module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    return None if file is None else realpath(file)


def find_class(module: str, name: str) -> object:
    """What stored data means by a module and a qualified name, wherever it is now.

    Raises:
        StoredClassError: It is nowhere in the program, or two modules have different classes of this name.

    >>> find_class("no.such.module", "Key")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.StoredClassError: stored data names no.such.module.Key, which ...
    """
    current = current_module(module)
    found = _attribute(sys.modules.get(current), name)
    if found is None and (place := _moved.get((module, name))) is not None:
        found = _attribute(sys.modules.get(place), name)
    elif found is None and current == module:
        found = _attribute(_imported(module), name)
    if found is None:
        found = _search(module, name)
    return found.kind if isinstance(found, Maker) and found.kind is not None else found


def _imported(module: str) -> ModuleType | None:
    try:
        return import_module(module)
    except Exception:
        # A module that is gone, or that can no longer be imported, has no class.
        return None


def _attribute(module: object, name: str) -> object | None:
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _search(module: str, name: str) -> object:
    """The class in the main program, or else in another module of the program; remembers where it was."""
    places: dict[int, tuple[str, type]] = {}
    for place, kind in _classes_named(name):
        places.setdefault(id(kind), (place, kind))
    if len(places) != 1:
        where = " and ".join(sorted(place for place, _ in places.values()))
        raise StoredClassError(f"{module}.{name}", f"is now in {where}" if places else "is no longer in the program")
    [(place, kind)] = places.values()
    _moved[module, name] = place
    return kind


def _classes_named(name: str) -> Iterator[tuple[str, type]]:
    """(module, class) for each class of the program with this qualified name."""
    top = name.partition(".")[0]
    main = sys.modules.get(main_program().module)
    modules = [main] if main is not None and top in vars(main) else _own_modules()
    for module in modules:
        if top in vars(module):
            found = _attribute(module, name)
            if isinstance(found, type) and found.__qualname__ == name:
                yield module.__name__, found


def _own_modules() -> list[ModuleType]:
    """The modules that the program has imported from its own folders."""
    # A program may put other objects among the modules.
    known = cast("list[object]", list(sys.modules.values()))
    return [module for module in known if isinstance(module, ModuleType) and _is_own(module)]


_INSTALLED = tuple(
    {*map(realpath, (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))}
    | {dirname(dirname(realpath(__file__)))}
)


def _is_own(module: ModuleType) -> bool:
    file = _file(module)
    return file is not None and not file.startswith(_INSTALLED)


def dumps(value: object) -> bytes:
    """Pickle a value for state, with the fields of named tuples and dataclasses; see `class_with_fields`.

    Raises the error of `pickle` for a value that has no pickled form.
    """
    kind = type(value)
    if kind in _BUILTIN and (kind is not list or not value or type(cast("list[object]", value)[0]) in _BUILTIN):
        data = _pickled(value, _PROTOCOL)
        # The instruction that names a class is not there. The other way takes longer.
        if _NAMES_CLASS not in data:
            return data
    buffer = io.BytesIO()
    _Pickler(buffer, _PROTOCOL).dump(value)
    return buffer.getvalue()


_BUILTIN = frozenset({type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset})
# State is pickled for each key: names of this module are found sooner than attributes of another.
_pickled, _PROTOCOL, _NAMES_CLASS = pickle.dumps, pickle.HIGHEST_PROTOCOL, pickle.STACK_GLOBAL


class _Pickler(pickle.Pickler):
    """A pickler that stores the fields of named tuples and dataclasses with their classes, and enum members by name.

    Without the fields, values would become those of other fields when a named tuple's are moved, and would be lost when
    a dataclass's are renamed. `pickle` stores the values of enum members, with which they would become other members
    when one is inserted before them, as keys do not.
    """

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Enum):
            kind = type(value)
            if _has_stored_name(value) and not is_stored(kind):
                return _ENUM_MEMBER, (kind.__module__, kind.__qualname__, value.name)
            return NotImplemented
        if not isinstance(value, type) or is_stored(value) or (form := form_of(value)) is None:
            return NotImplemented
        return _CLASS_WITH_FIELDS, (value.__module__, value.__qualname__, form)


def _has_stored_name(member: Enum) -> bool:
    """Whether a member is found again by its name: no combination of flags, and its class does not pickle it itself."""
    kind = type(member)
    return kind.__reduce_ex__ is Enum.__reduce_ex__ and kind.__members__.get(member.name) is member


_TUPLE, _BY_POSITION, _BY_NAME = "named tuple", "frozen dataclass with slots", "dataclass"
_METHODS = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
"""Methods by which a class says how its instances are pickled."""


@lru_cache(_REMEMBERED)
def form_of(kind: type) -> _Form | None:
    """The form of a named tuple or dataclass; None for a class that says itself how its instances are pickled."""
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        return None if names is None else (_TUPLE, names)
    own = [method for name in _METHODS if (method := getattr(kind, name, None)) is not getattr(object, name, None)]
    if not is_dataclass(kind) or any(getattr(method, "__module__", None) != "dataclasses" for method in own):
        return None
    return _BY_POSITION if own else _BY_NAME, tuple(field.name for field in fields(kind))


def class_with_fields(module: str, name: str, form: _Form) -> object:
    """The class of stored instances, with the fields that it had then; further ones have plain defaults.

    Raises `StoredClassError` if the class is gone, or if the values would be lost or become those of other fields.
    """
    known = _unchanged.get((module, name, form))
    # What stands under the name is looked up each time: a module may be imported again, a class defined again.
    if known is not None and _attribute(sys.modules.get(module), name) is known:
        return known
    found = find_class(module, name)
    now = form_of(found) if isinstance(found, type) else None
    if now == form:
        if _attribute(sys.modules.get(module), name) is found:
            if len(_unchanged) >= _REMEMBERED:
                _unchanged.clear()
            _unchanged[module, name, form] = found
        return found
    kind, stored = form
    if not isinstance(found, type) or now is None or now[0] != kind:
        raise StoredClassError(
            f"{module}.{name}", f"was a {kind} and is {'none' if now is None else 'a ' + now[0]} now"
        )
    names = now[1]
    kept = {*stored} <= {*names} if kind == _BY_NAME else names[: len(stored)] == stored
    if not (kept and _have_defaults(found, {*names} - {*stored})):
        rest = ", without a plain default for each" if kept else ""
        problem = f"had the fields {', '.join(stored)} and now has {', '.join(names)}{rest}"
        raise StoredClassError(f"{module}.{name}", problem)
    return found


def _have_defaults(kind: type, new: set[str]) -> bool:
    """Whether an instance that is made without some fields has them."""
    if issubclass(kind, tuple):
        return new <= getattr(kind, "_field_defaults", {}).keys()
    return not new or ("__slots__" not in vars(kind) and all(hasattr(kind, name) for name in new))


def enum_member(module: str, name: str, member: str) -> object:
    """The member of a stored enumeration with this name. Raises `StoredClassError` if the class or the name is gone."""
    found = find_class(module, name)
    if not isinstance(found, EnumType):
        raise StoredClassError(f"{module}.{name}", "was an enumeration and is none now")
    if member not in found.__members__:
        raise StoredClassError(f"{module}.{name}", f"had the member {member}, which it no longer has")
    return found.__members__[member]


_WITH_FIELDS, _OF_ENUM = "ClassWithFields", "EnumMember"
_CLASS_WITH_FIELDS, _ENUM_MEMBER = (
    stored_function(_WITH_FIELDS, class_with_fields),
    stored_function(_OF_ENUM, enum_member),
)


def loads(data: bytes) -> Any:
    """Unpickle a stored value of the program.

    Raises:
        StoredClassError: A class of the value is gone, or its instance cannot be made any more.
    """
    try:
        return pickle.loads(data)
    except Exception as error:
        return _resolving(data, error)


def _resolving(data: bytes, first: Exception) -> object:
    unpickler = _Unpickler(io.BytesIO(data))
    try:
        return unpickler.load()
    except StoredClassError:
        raise
    except Exception as error:
        if unpickler.last is None:
            raise first from None
        problem = f"has changed, so that the stored value cannot be made again ({type(error).__name__}: {error!s:.200})"
        raise StoredClassError(unpickler.last, problem) from error


class _Unpickler(pickle.Unpickler):
    """An unpickler that looks for classes whose module has another name now."""

    last: str | None = None
    """The last class of the program that the value names."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == (MODULE, _WITH_FIELDS):
            return self._class_with_fields
        if (module, name) == (MODULE, _OF_ENUM):
            return self._enum_member
        if module == MODULE or module in sys.builtin_module_names:
            return super().find_class(module, name)
        known = sys.modules.get(module)
        if known is None or module in (MAIN, main_program().alias) or _is_own(known):
            self.last = f"{module}.{name}"
            return find_class(module, name)
        return cast(object, super().find_class(module, name))

    def _class_with_fields(self, module: str, name: str, form: tuple[str, tuple[str, ...]]) -> object:
        self.last = f"{module}.{name}"
        return class_with_fields(module, name, form)

    def _enum_member(self, module: str, name: str, member: str) -> object:
        self.last = f"{module}.{name}"
        return enum_member(module, name, member)
