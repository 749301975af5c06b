"""The Bloom filter of ids: never takes a known id for new, whoever brought the copy forward, and stays small."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.lowlevel.state.state_store import Delta
from headrace.runners.spark.statestore.id_filter import SMALLEST, IdFilter
from headrace.runners.spark.statestore.store_cache import StoreCache, advance

IDS = [b"%d" % number for number in range(12)]
CHANGES = st.builds(
    Delta, ids=st.dictionaries(st.sampled_from(IDS), st.integers(0, 9)), forget_ids_before=st.none() | st.integers(0, 9)
)


def test_generations_hold_all_ids_and_few_others_and_go_with_their_ids():
    ids, size, known = IdFilter(), 0, 5 * SMALLEST
    ids.add((b"%d" % number, number) for number in range(known))
    size = ids.size_bytes
    assert all(b"%d" % number in ids for number in range(known))
    wrong = sum(b"%d" % number in ids for number in range(known, known + 20_000))
    assert wrong < 0.05 * 20_000
    assert size < 4 * known
    ids.forget_before(known - 1)
    assert b"%d" % (known - 1) in ids
    assert ids.size_bytes < size
    ids.forget_before(known)
    assert ids.size_bytes == 0


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CHANGES, st.booleans(), st.booleans()), max_size=8))
def test_no_known_id_is_taken_for_new(tmp_path_factory, steps):
    """Some changes are applied by another process: the filter sees only where the copy stands. Some are not asked."""
    folder: Path = tmp_path_factory.mktemp("copies")
    copies = StoreCache("run", folder)
    chain: list[str] = []
    deltas: dict[str, Delta] = {}

    def read(name: str) -> Iterable[Delta]:
        return [deltas[name]]

    for number, (delta, elsewhere, asked) in enumerate(steps):
        name = f"{number}-x"
        with copies.lease("step", "0") as copy:
            if elsewhere and copy.refresh() == (chain[-1] if chain else ""):
                copy.extend(chain[-1] if chain else "", name, lambda delta=delta: [delta])
        chain.append(name)
        deltas[name] = delta
        with copies.lease("step", "0") as copy:
            advance(copy, chain, read)
            if asked:
                known = [record_id for record_id in IDS if copy.knows_id(record_id)]
                assert all(copy.may_know_id(record_id) for record_id in known)
                assert not any(copy.may_know_id(b"new %d" % i) for i in range(3))
    copies.close()


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_a_view_that_was_asked_is_asked_again(tmp_path_factory, order):
    """The filter is that of the newest view, also if the last one was asked."""
    copies = StoreCache("run", tmp_path_factory.mktemp("copies"))
    chain: list[str] = []
    for number, (record, asked) in enumerate(order):
        delta = Delta(ids={b"%d" % record: number})
        chain.append(str(number))
        with copies.lease("step", "0") as copy:
            advance(copy, chain, lambda name, delta=delta: [delta])
            assert not asked or copy.may_know_id(b"%d" % record)
    copies.close()
