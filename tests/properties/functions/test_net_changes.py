"""What the changes of an epoch come to by key, against a table to which they are applied one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import ChangeKind
from headrace.sdk.io.epoch_sink import Run, SinkMark, SinkTakenError, net_of
from tests.depth import examples

CHANGES = st.lists(
    st.tuples(st.sampled_from(list(ChangeKind)), st.sampled_from("abcd"), st.integers(0, 5)), max_size=20
)


@settings(max_examples=examples(100, 5000))
@given(st.dictionaries(st.sampled_from("abcd"), st.integers()), CHANGES, st.booleans())
def test_changes_come_to_what_they_come_to_one_by_one(before, changes, with_kinds):
    one_by_one, at_once = dict(before), dict(before)
    for kind, key, value in changes:
        if kind is ChangeKind.DELETE and with_kinds:
            one_by_one.pop(key, None)
        else:
            one_by_one[key] = value
    net = net_of([kind for kind, _, _ in changes] if with_kinds else None, [key for _, key, _ in changes])
    for position in net.taken:
        at_once.pop(changes[position][1], None)
    for position in net.put:
        at_once[changes[position][1]] = changes[position][2]
    assert at_once == one_by_one
    keys = [changes[position][1] for position in (*net.put, *net.taken)]
    assert len(keys) == len(set(keys))
    assert net.put == sorted(net.put)


@settings(max_examples=examples(100, 5000))
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=20))
def test_each_epoch_is_written_once_whatever_comes_again(deliveries):
    """Deliveries of a run and of its replaced drivers: any epoch up to the newest, at any time."""
    run, stored, written, newest = Run(7, None, "sink"), None, [], 0
    for epoch, is_next in deliveries:
        epoch = newest + 1 if is_next else min(epoch, newest)
        if 0 < epoch < newest:
            with pytest.raises(SinkTakenError, match=f"epoch {newest} of this run is already there"):
                run.must_write(stored, epoch, "a table")
        elif epoch and run.must_write(stored, epoch, "a table"):
            stored = SinkMark(7, epoch)
            written.append(epoch)
        newest = max(newest, epoch)
    assert written == list(range(1, newest + 1))
