"""What is stored of single keys, as the page lists it."""

from __future__ import annotations

import pickle
from decimal import Decimal
from enum import Enum
from pathlib import Path
from unittest.mock import patch

import pytest

from headrace.lowlevel import BoundedInjector, Computation, Context, Record, Topology
from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.recording.stored_cells import UnknownStepError
from headrace.ui import stored_state
from headrace.ui.stored_state import entries_of_id, entries_of_key, largest_keys, value_text
from tests.pageruns import stopped


class Colour(Enum):
    RED = "red"


class Lengths(Computation):
    """Keeps a text that grows with each record, and a cell beside it."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = (context.state or "") + "x" * 10
        context.write(b"last", b"abc")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> CheckpointView:
    place = str(tmp_path_factory.mktemp("cells"))
    topology = Topology()
    keys = [("a", 1)] * 3 + [(7, 1)] * 2 + [(("red", 1), 1)]
    topology.injector("keys", BoundedInjector(keys))
    topology.computation("lengths", Lengths(), {"keys": lambda key: key}, [])
    LocalRunner().run_topology(topology, RunOptions(checkpoint=place))
    return CheckpointView.of(place)


def test_keys_with_the_most_state_come_first(cells: CheckpointView) -> None:
    found = largest_keys(cells, "lengths")
    assert [row.key for row in found.keys] == ["a", "7", "('red', 1)"]
    assert [row.entries for row in found.keys] == [2, 2, 2]
    assert all(row.bytes is not None and row.bytes > 10 for row in found.keys)
    assert (found.scanned, found.complete) == (6, True)


ODD = [
    "7",
    7,
    " ",
    "",
    "a\nb",
    "x" * 10_000,
    "x" * 9_999,
    frozenset([1]),
    b"\x00",
    "<script>alert(1)</script>",
    Colour.RED,
]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> CheckpointView:
    place = str(tmp_path_factory.mktemp("odd"))
    topology = Topology()
    topology.injector("keys", BoundedInjector([(key, 1) for key in ODD]))
    topology.computation("lengths", Lengths(), {"keys": lambda key: key}, [])
    LocalRunner().run_topology(topology, RunOptions(checkpoint=place))
    return CheckpointView.of(place)


def test_every_key_of_the_list_leads_to_its_state(odd: CheckpointView) -> None:
    rows = largest_keys(odd, "lengths").keys
    assert len(rows) == len({row.id for row in rows}) == len(ODD), "one that looks like another is a key of its own"
    assert {"7", "'7'", "''", "' '", "'a\\nb'", "<script>alert(1)</script>"} <= {row.key for row in rows}
    for row in rows:
        assert [entry["cell"] for entry in entries_of_id(odd, "lengths", row.id)] == ["state", "last"], row.key
    assert entries_of_id(odd, "lengths", "nothing") == []


def test_a_text_that_looks_like_a_number_is_written_in_quotes(odd: CheckpointView) -> None:
    assert len(entries_of_key(odd, "lengths", "'7'")) == 2
    assert len(entries_of_key(odd, "lengths", "7")) == 4, "of the number and of the text"


def test_state_of_plain_values_can_be_read(odd: CheckpointView) -> None:
    [state, _] = entries_of_key(odd, "lengths", "' '")
    assert state["value"] == "x" * 10


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("code has run",))


@pytest.mark.parametrize(
    "data",
    [
        *(pickle.dumps(Evil()), pickle.dumps([Evil()]), pickle.dumps(Colour.RED), pickle.dumps(Decimal(1))),
        *(b"\x80\x05", b"\x80\x05r\xff\xff\xff\xffN.", b"\x80\x05]\x94h\x07.", b"\x80\x05cbuiltins\nexit\n)R."),
    ],
)
def test_a_pickle_of_anything_else_is_shown_as_bytes(data: bytes) -> None:
    assert value_text(data).startswith("b'\\x80"), "and no class is looked for"


def test_a_value_that_holds_itself_many_times_is_short(data: object = None) -> None:
    for _ in range(40):
        data = [data] * 10
    assert len(value_text(pickle.dumps(data))) <= 80


def test_what_was_not_looked_at_is_said(cells: CheckpointView) -> None:
    with patch.object(stored_state, "SCANNED", 3):
        found = largest_keys(cells, "lengths")
    assert (found.scanned, found.complete) == (3, False)


@pytest.mark.parametrize("key", ["a", "7", "('red', 1)"])
def test_a_key_is_written_as_text_or_as_a_program_would(cells: CheckpointView, key: str) -> None:
    entries = entries_of_key(cells, "lengths", key)
    assert [entry["cell"] for entry in entries] == ["state", "last"]
    assert entries[1] == {"cell": "last", "bytes": "3"}


@pytest.mark.parametrize(
    "key",
    [
        "b",
        "",
        "8",
        "{'no': 'key'}",
        "{{}}",
        "lambda: 1",
        "(" * 500,
        "-" * 60_000 + "1",
        "\ud800".encode("utf-8", "replace").decode(),
    ],
)
def test_a_key_without_state_has_no_entries(cells: CheckpointView, key: str) -> None:
    assert entries_of_key(cells, "lengths", key) == []


def test_lines_of_columns_have_their_fields(tmp_path: Path) -> None:
    view = CheckpointView.of(stopped(tmp_path / "state", earliest=False))
    found = largest_keys(view, "Sum")
    assert {row.key: row.bytes for row in found.keys} == {"red": None, "blue": None}
    fields = entries_of_key(view, "Sum", "red")
    assert {"start", "end"} <= fields[0].keys()
    assert "1970-01-01 00:03:00" in {each["end"] for each in fields}


def test_timers_are_told_by_their_windows(tmp_path: Path) -> None:
    view = CheckpointView.of(stopped(tmp_path / "state"))
    told = {(timer["key"], timer["for"]) for timer in largest_keys(view, "Sum").timers}
    assert ("red", "window from 1970-01-01T00:02:00Z") in told


def test_an_unknown_step_is_refused_with_those_that_there_are(cells: CheckpointView) -> None:
    for ask in (lambda: largest_keys(cells, "other"), lambda: entries_of_key(cells, "other", "a")):
        with pytest.raises(UnknownStepError, match=r"no step 'other' that keeps state \(steps: lengths\)"):
            ask()
