from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.checkpoint.files.delta_file import (
    KIND,
    DeltaHeader,
    decode_deltas,
    encode_deltas,
    read_deltas,
    write_deltas,
)
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state.state_store import FORMAT_VERSION, Delta
from headrace.lowlevel.storage.envelope import wrap
from tests.stores import DictStore

HEADER = DeltaHeader(7, 1, 3, "abc")
timestamps = st.integers(-(2**63), 2**63 - 1)
rows = st.binary(max_size=20)
tags = st.text(st.characters(), max_size=5)  # lone surrogates too
deltas = st.builds(
    Delta,
    keys=st.dictionaries(rows, st.binary()),
    cells=st.dictionaries(st.tuples(rows, st.binary(max_size=5)), st.none() | st.binary()),
    marks=st.dictionaries(st.tuples(rows, st.integers(0, 2), tags), st.none() | timestamps),
    ids=st.dictionaries(rows, timestamps),
    forget_ids_before=st.none() | timestamps,
    segments=st.dictionaries(st.binary(min_size=1), st.none() | st.binary(), max_size=3),
)


@given(st.dictionaries(st.text(), deltas, max_size=3), st.integers(0, 2**40), st.integers(0, 99))
def test_what_is_encoded_is_decoded(content: dict[str, Delta], epoch: int, part: int) -> None:
    header = DeltaHeader(epoch, 2, 5, "t0", part)
    assert decode_deltas(encode_deltas(header, content), "x") == (header, content)


@given(st.dictionaries(st.sampled_from("abc"), deltas))
def test_one_computation_of_several(content: dict[str, Delta]) -> None:
    data = encode_deltas(HEADER, content)
    for name in "abc":
        assert decode_deltas(data, "x", name)[1] == {key: delta for key, delta in content.items() if key == name}


def test_a_large_delta() -> None:
    content = {"count": Delta(cells={(b"%016d" % n, b""): None if n % 3 else b"%60d" % n for n in range(100_000)})}
    data = encode_deltas(HEADER, content)
    assert decode_deltas(data, "x")[1] == content


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_a_file_of_another_version_is_refused(version: int) -> None:
    told = f"version {version} of a delta file, this release reads version {FORMAT_VERSION};"
    with pytest.raises(CheckpointError, match=told):
        decode_deltas(wrap(KIND, version, []), "x")


def test_writing_says_where_and_how_much() -> None:
    store = DictStore()
    file = write_deltas(store, HEADER, {"count": Delta(ids={b"x": 1})})
    path = "deltas/00000000000000000007/1-3-abc"
    assert file == (7, "abc", len(store.objects[path]), b"")
    assert read_deltas(store, path, HEADER) == {"count": Delta(ids={b"x": 1})}
    assert pickle.loads(pickle.dumps(file)) == file


def test_a_token_that_cannot_stand_in_a_name() -> None:
    with pytest.raises(ValueError, match=r"token 'a/../b' cannot stand in a name; use letters, digits and _ only"):
        write_deltas(DictStore(), DeltaHeader(1, 1, 0, "a/../b"), {})


def test_a_missing_file_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"deltas/7 in dict:// is missing, but a commit names it"):
        read_deltas(DictStore(), "deltas/7", HEADER)


def test_the_file_of_another_attempt_is_refused() -> None:
    store = DictStore({"here": encode_deltas(HEADER._replace(token="other"), {})})
    with pytest.raises(CheckpointError, match=r"here in dict:// holds .*'other'.* instead of .*'abc'"):
        read_deltas(store, "here", HEADER)


@pytest.mark.parametrize("data", [b"", b"HEADRACE", b"something else entirely, and long enough to have a header"])
def test_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="the file is damaged"):
        decode_deltas(data, "the file")
