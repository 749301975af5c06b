"""The table of Beam's names is what Beam's modules and ours give."""

from __future__ import annotations

import pytest

from tests import beamnames

pytest.importorskip("apache_beam")


def test_the_table_and_the_list_are_up_to_date() -> None:
    remedy = "python -m tests.beamnames writes them anew; read what has changed"
    assert beamnames.PAGE.read_text(encoding="utf-8").splitlines() == beamnames.page().splitlines(), remedy
    assert beamnames.LIST.read_text(encoding="utf-8").splitlines() == beamnames.names_of_beam().splitlines(), remedy


def one(first: int, second: str = "a", *, third: object = None) -> None: ...
def another(second: str = "b", *, first: int) -> None: ...


class Beams:
    def method(self) -> None: ...


def test_differences_are_named() -> None:
    assert beamnames.difference(one, one) == ""
    assert beamnames.difference(one, another) == (
        "no argument `third`; `first` only by name; `second` at another place; another default of `second`"
    )
    Beams.__module__ = "apache_beam.here"
    assert beamnames.difference(Beams, object) == "no `method`"
