"""The table of Beam's names is what Beam's modules and ours give."""

from __future__ import annotations

import subprocess
import sys

from headrace import ptransform_fn
from tests import beamnames


def test_the_table_and_the_lists_are_up_to_date() -> None:
    # In a process in which nobody has looked absent names up.
    command = [sys.executable, "-m", "tests.beamnames", "--check"]
    ran = subprocess.run(command, cwd=beamnames.ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def one(first: int, second: str = "a", *, third: object = None) -> None: ...
def another(second: str = "b", *, first: int) -> None: ...
def by_name(*collections: object, second: str = "b") -> None: ...


class Beams:
    def method(self) -> None: ...


def test_differences_are_named() -> None:
    assert beamnames.difference(one, one) == ""
    assert beamnames.difference(one, another) == (
        "no argument `third`; `first` only by name; `second` at another place; another default of `second`"
    )
    assert beamnames.difference(by_name, another) == ""
    Beams.__module__ = "apache_beam.here"
    assert beamnames.difference(Beams, object) == "no `method`"


@ptransform_fn
def of_pairs(pairs: object, label: str = "Pairs") -> None: ...


def test_the_collection_is_no_argument_of_a_transform_that_is_a_function() -> None:
    def beams(label: str = "Pairs") -> None: ...

    assert beamnames.difference(beams, of_pairs) == ""
    assert beamnames.difference(one, of_pairs) == "no argument `first`, `second`, `third`"
