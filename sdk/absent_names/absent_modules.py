"""Makes importable, below the packages under Beam's names, what Beam has there and Headrace does not have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType

from headrace.sdk.absent_names.names_of_beam import ABSENT_MODULES, ABSENT_NAMES

_ROOT = "headrace"


class AbsentModule(ModuleType):
    """A module of Beam that Headrace does not have; each of its names is an `AbsentName`."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _attribute(self, name)

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
    for path in (inside, *(path for path in ABSENT_NAMES if path.startswith(f"{inside}."))):
        module = f"{_ROOT}.{path}"
        if module in sys.modules:
            vars(sys.modules[module])["__getattr__"] = partial(absent_attribute, module)


def absent_attribute(module: str, name: str) -> object:
    """What a module has under a name of Beam that is absent in Headrace: an `AbsentModule` or an `AbsentName`.

    Raises `AttributeError` for a name that Beam does not have either.
    """
    path = module.removeprefix(_ROOT).lstrip(".")
    if f"{module}.{name}" in sys.modules or name in ABSENT_NAMES.get(path, "").split():
        return _attribute(sys.modules[module], name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def _attribute(module: ModuleType, name: str) -> object:
    """A module of `sys.modules`, or an `AbsentName`, which is kept in the module."""
    path = f"{module.__name__}.{name}"
    found: object = sys.modules.get(path)
    if found is None:
        # Imported when the first name is asked for, so that a program that uses none does not wait for it.
        from headrace.sdk.absent_names.absent_name import AbsentName

        found = AbsentName(path.removeprefix(f"{_ROOT}."))
    vars(module)[name] = found
    return found
