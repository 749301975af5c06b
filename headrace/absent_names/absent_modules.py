"""Makes importable, below the packages under Beam's names, what Beam has there and Headrace does not have."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pkgutil import get_data
from types import ModuleType
from typing import cast

_Names = Mapping[str, str]
_LISTS: Mapping[str, _Names] = json.loads(get_data(__package__, "names_of_beam.json") or b"")
"""Lists that `python -m tests.beamnames` makes of Beam's modules; paths of these are without `apache_beam`."""
ABSENT_MODULES: _Names = _LISTS["absent_modules"]
"""Path of a package of Beam -> its modules that Headrace does not have."""
ABSENT_NAMES: _Names = _LISTS["absent_names"]
"""Path of a module of Beam -> its names that the module of this path does not have here."""
IMPORTED_NAMES: _Names = _LISTS["imported_names"]
"""Path of a module of Beam -> paths of what it imports from Beam's other modules, and Headrace has there."""
_ROOT = "headrace"
_RUNNER = "runners.local.LocalRunner"
RENAMED = {
    "runners.DirectRunner": _RUNNER,
    "runners.direct.DirectRunner": _RUNNER,
    "runners.direct.direct_runner.BundleBasedDirectRunner": _RUNNER,
    "runners.direct.direct_runner.DirectRunner": _RUNNER,
    "runners.direct.direct_runner.SwitchingDirectRunner": _RUNNER,
    "runners.portability.fn_api_runner.FnApiRunner": _RUNNER,
    "runners.portability.fn_api_runner.fn_runner.FnApiRunner": _RUNNER,
}
"""Path of a name of Beam -> path of what has another name here."""

IN_MODULES_OF = {
    "io": "io.delta.ReadFromDelta io.delta.WriteToDelta io.iceberg.ReadFromIceberg io.iceberg.WriteToIceberg "
    "io.kafka_values.RegistryError io.kafka_values.ValueFormat runners.spark.WriteToSpark"
}
"""Path of a package -> paths of names that are looked for in it, where their modules need not be imported yet."""
_INSIDE = tuple(f"{_ROOT}.{inner}." for inner in ("absent_names", "cli", "sdk", "lowlevel", "runners"))
"""Beginnings of the names of modules from which no program imports, as a rule."""


class AbsentModule(ModuleType):
    """A module of Beam that Headrace does not have; each of its names is an `AbsentName`."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return absent_attribute(self.__name__, name)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)


def add_absent_modules() -> None:
    """Put the absent modules into `sys.modules`, where Python looks for a module once its package is imported.

    >>> from headrace.dataframe.convert import to_dataframe
    >>> to_dataframe.path
    'dataframe.convert.to_dataframe'
    """
    for parent, names in ABSENT_MODULES.items():
        for name in names.split():
            path = f"{_ROOT}.{parent}.{name}" if parent else f"{_ROOT}.{name}"
            module = sys.modules.setdefault(path, AbsentModule(path, "A module of Beam that Headrace does not have."))
            # The mark of a package: what is in it is in `sys.modules` already.
            module.__path__ = []


def add_absent_names(package: str) -> None:
    """Make a package and those of its modules that are imported answer for names of Beam that they do not have.

    Args:
        package: `__name__` of the package, or of a module, which calls this.

    >>> from headrace.transforms.core import CallableWrapperDoFn
    >>> CallableWrapperDoFn.path
    'transforms.core.CallableWrapperDoFn'
    """
    inside = package.removeprefix(f"{_ROOT}.")
    for path in (inside, *(path for path in {*ABSENT_NAMES, *IMPORTED_NAMES} if path.startswith(f"{inside}."))):
        module = f"{_ROOT}.{path}"
        if module in sys.modules:
            vars(sys.modules[module])["__getattr__"] = partial(absent_attribute, module)


def export_from_modules(package: str) -> None:
    """Make `__all__` of a package: its imported modules, and those of their names that it has.

    Type checkers take the package's names from its star imports.

    >>> import headrace.coders
    >>> {"coders", "VarIntCoder"} <= {*headrace.coders.__all__}, "add_absent_names" in headrace.coders.__all__
    (True, False)
    """
    own = vars(sys.modules[package])
    modules = [name for name in own if f"{package}.{name}" in sys.modules]
    names = {name for module in modules for name in getattr(sys.modules[f"{package}.{module}"], "__all__", ())}
    own["__all__"] = sorted({*modules, *names & own.keys()})


def absent_attribute(module: str, name: str) -> object:
    """What a module has under a name of Beam that is not its own.

    This is what another module here has under the name, if Beam's module imports it from there, else an `AbsentModule`
    or `AbsentName`. It is kept in the module.

    Raises `AttributeError` for a name that Beam does not have either. Python adds what is spelt alike.

    >>> from headrace.transforms.window import MIN_TIMESTAMP
    >>> MIN_TIMESTAMP.micros
    -9223372036854775000
    """
    path = f"{module}.{name}".removeprefix(f"{_ROOT}.")
    parent = path.rpartition(".")[0]
    imported = [target for target in IMPORTED_NAMES.get(parent, "").split() if target.rpartition(".")[2] == name]
    found: object
    if imported or path in RENAMED:
        found = _object_at(f"{_ROOT}.{imported[0] if imported else RENAMED[path]}")
    elif f"{_ROOT}.{path}" in sys.modules:
        found = sys.modules[f"{_ROOT}.{path}"]
    elif name in ABSENT_NAMES.get(parent, "").split() or isinstance(sys.modules[module], AbsentModule):
        # Imported when the first name is asked for, so that a program that uses none does not wait for it.
        from headrace.absent_names.absent_name import AbsentName

        found = AbsentName(path)
    else:
        message = f"module {module!r} has no attribute {name!r}"
        if places := _places_of(module, name):
            raise AttributeError(f"{message}; {' or '.join(f'from {place} import {name}' for place in places)}")
        raise AttributeError(message, name=name, obj=sys.modules[module])
    vars(sys.modules[module])[name] = found
    return found


def _places_of(package: str, name: str) -> list[str]:
    """The modules of a package that have a name which is looked for in the package: one for each of its meanings.

    >>> _places_of("headrace.io", "MatchFiles"), _places_of("headrace.io", "WriteToSpark")
    (['headrace.io.fileio'], ['headrace.runners.spark'])
    """
    below = sorted(path for path in sys.modules if path.startswith(f"{package}.") and not path.startswith(_INSIDE))
    found: dict[int, str] = {}
    for path in sorted(below, key=lambda path: path.count(".")):
        # A program may put other objects among the modules.
        known = vars(each) if isinstance(each := cast(object, sys.modules[path]), ModuleType) else {}
        if name in known and name in known.get("__all__", ()):
            found.setdefault(id(known[name]), path)
    for path in IN_MODULES_OF.get(package.removeprefix(f"{_ROOT}."), "").split():
        place, _, last = path.rpartition(".")
        if last == name and f"{_ROOT}.{place}" not in found.values():
            found[-1] = f"{_ROOT}.{place}"
    return [*found.values()]


def _object_at(path: str) -> object:
    """The module of a path, or what a module has under a name."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)
