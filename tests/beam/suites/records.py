"""Lists and counts in Beam's test modules into which a test's DoFns write what they see, for workers of Spark, too.

Beam's direct runners run a DoFn in the process of the test, so such a list can be an attribute of the test's class, and
such counts a variable of its module. Here they stand for a file, to which all processes of the machine append.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.beam.suites.tables import suites

FOLDER = "HEADRACE_SUITE_RECORDS"
"""Environment variable with the folder of the files; workers inherit it."""


class Records(list[Any]):
    """A list whose elements are in a file, so that each process that has the object sees and appends the same.

    Args:
        path: The file, of pickled elements.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def append(self, element: object) -> None:
        """Add an element, in one write, which no other process interrupts."""
        with open(self._path, "ab", buffering=0) as file:
            file.write(pickle.dumps(element))

    def clear(self) -> None:
        """Remove all elements."""
        Path(self._path).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Any]:
        """The elements in the order in which they were appended."""
        if not os.path.exists(self._path):
            return
        with open(self._path, "rb") as file:
            while file.peek(1):
                yield pickle.load(file)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[object, ...]:
        return Records, (self._path,)


class Counts:
    """Counts by key in a file: each process that has the object sees and changes the same.

    Args:
        path: The file, of pickled keys and counts; the last of a key holds.
    """

    def __init__(self, path: str) -> None:
        self._log = Records(path)

    def __getitem__(self, key: object) -> object:
        return dict(self._log).get(key, 0)

    def __setitem__(self, key: object, value: object) -> None:
        self._log.append((key, value))

    def clear(self) -> None:
        """Remove all counts."""
        self._log.clear()


class _Recording(type):
    """The type of a test class whose `all_records` is in a file, empty again after each assignment of an empty list."""

    @property
    def all_records(cls) -> Records:
        return Records(_path_of(cls.__module__, cls.__name__))

    @all_records.setter
    def all_records(cls, value: list[object]) -> None:
        cls.all_records.clear()
        for element in value:
            cls.all_records.append(element)


def _path_of(module: str, name: str) -> str:
    return os.path.join(os.environ[FOLDER], f"{module}.{name}")


def share_records() -> None:
    """Have the names that the table of suites lists stand for files, in this process.

    A class is replaced in its module by one of the same name that inherits from it; any other value by `Counts`.
    """
    os.environ.setdefault(FOLDER, tempfile.mkdtemp(prefix="headrace-suites-"))
    for suite in suites().values():
        for name in suite.shared:
            module = import_module(f"apache_beam.{suite.module}")
            owner, _, attribute = name.rpartition(".")
            within = getattr(module, owner) if owner else module
            setattr(within, attribute, _shared(getattr(within, attribute), module.__name__, name))


def _shared(value: object, module: str, name: str) -> object:
    if isinstance(value, type):
        return _Recording(name, (value,), {"__module__": module})
    return Counts(_path_of(module, name))
