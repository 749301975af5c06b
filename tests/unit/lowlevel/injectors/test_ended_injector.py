"""An ended injector is the other one in all but what it reads."""

from __future__ import annotations

import pickle

import pytest

from headrace.lowlevel import ManualInjector, Topology
from headrace.lowlevel.injectors.injector import EndedInjector


def test_nothing_more_is_read():
    delivery = EndedInjector(ManualInjector().records((1, 1))).plan(7, 10, 2)
    assert (delivery.splits, delivery.position, delivery.done) == ([], 7, True)


def test_all_else_is_that_of_the_other_one():
    other = ManualInjector(record_ids=True)
    ended = pickle.loads(pickle.dumps(EndedInjector(other)))
    assert (ended.record_ids, ended.position_kind, ended.start()) == (True, other.position_kind, other.start())
    Topology().injector("in", ended)
    with pytest.raises(AttributeError):
        ended.no_such_method()
