"""Tests of Apache Beam, from its installed wheel, that run with Headrace when only the package's name is changed."""

from __future__ import annotations

import re
import sys
import unittest.mock
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

_OF_TESTS = re.compile(r"headrace((?:\.\w+)*_test\b)")
"""Modules with help for tests, which only Beam has."""

_MARK = re.compile(r"^ *@pytest\.mark\.\w+\n", re.MULTILINE)
"""Marks that only Beam's configuration of pytest knows."""

_PRIVATE = re.compile(r"^from headrace[\w.]* import _\w+( as \w+)?\n", re.MULTILINE)
"""Imports of private names, which only some tests need."""


def renamed(module: str) -> ModuleType:
    """A test module of Beam's, by its name below `apache_beam`, as one of Headrace."""
    # The standard library's module, which is a package of its own for old versions of Python.
    import_module("parameterized")
    sys.modules.setdefault("mock", unittest.mock)
    package = find_spec("apache_beam")
    assert package is not None and package.origin is not None
    path = Path(package.origin).parent.joinpath(*module.split(".")).with_suffix(".py")
    text = _OF_TESTS.sub(r"apache_beam\1", path.read_text().replace("apache_beam", "headrace"))
    text = _PRIVATE.sub("", _MARK.sub("", text))
    made = ModuleType(f"renamed_{'_'.join(module.split('.'))}")
    # Pickling looks for classes in their module.
    sys.modules[made.__name__] = made
    made.__file__ = str(path)
    exec(compile(text, str(path), "exec", dont_inherit=True), vars(made))
    return made


def classes(module: str, *names: str, without: str = "", only: str = "") -> list[type]:
    """Classes of tests in a module, for the namespace of a test module of ours.

    Args:
        module: The module of Beam, by its name below `apache_beam`.
        *names: The classes.
        without: Tests that are left out, each as `Class.test`, divided by white space.
        only: The tests that are kept; all if it is empty.
    """
    found = renamed(module)
    chosen = [getattr(found, name) for name in names]
    for kind in chosen:
        tests = {name for name in vars(kind) if name.startswith("test")}
        left_out = {test.partition(".")[2] for test in without.split() if test.startswith(f"{kind.__name__}.")}
        kept = {test.partition(".")[2] for test in only.split() if test.startswith(f"{kind.__name__}.")}
        assert left_out | kept <= tests, f"{kind.__name__} has no {(left_out | kept) - tests}"
        for name in left_out | (tests - kept if only else set()):
            delattr(kind, name)
    return chosen


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines without a runner run in memory."""
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
