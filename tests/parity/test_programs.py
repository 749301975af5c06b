"""The same program under two packages: Beam's direct runners are the oracle, every element is compared."""

from __future__ import annotations

import logging

import pytest

from headrace.runners.local import LocalRunner
from tests.depth import examples, soaking
from tests.parity import programs  # noqa: F401 - registers them
from tests.parity.batches import Batches, batches
from tests.parity.comparison import differences
from tests.parity.corpus import PROGRAMS, Program
from tests.parity.programs.wrong import WRONG
from tests.parity.recorded import RecordedBeam, digest_of, recorded
from tests.parity.worlds import Beam, Headrace

pytestmark = pytest.mark.parity


@pytest.fixture(scope="session")
def theirs() -> Batches | RecordedBeam:
    """What Beam puts out: in a long run from Beam itself, else as it was recorded."""
    return Batches(Beam(), PROGRAMS.values(), size=1) if soaking() else RecordedBeam()


@pytest.fixture(scope="session")
def in_memory() -> Batches:
    """What Headrace puts out in memory, each program by itself."""
    return Batches(Headrace(LocalRunner), PROGRAMS.values(), size=1)


@pytest.fixture(scope="session", params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def ours(request) -> Batches:
    """What Headrace puts out, on each runner in turn."""
    if request.param == "local":
        found: Batches = request.getfixturevalue("in_memory")
        return found
    from headrace.runners.spark import SparkRunner

    session = request.getfixturevalue("spark")
    return Batches(Headrace(lambda: SparkRunner(session, intervals=2)), PROGRAMS.values(), size=30)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_beam(name, theirs, ours, in_memory):
    found = differences(PROGRAMS[name], theirs[name], ours[name])
    # On Spark it may be what comes out in memory, too: that is compared with Beam's there.
    assert found == [] or (ours is not in_memory and ours[name] == in_memory[name]), found


def test_what_beam_puts_out_is_recorded() -> None:
    remedy = "record it: python -m tests.parity.recorded"
    assert sorted(recorded()) == sorted(PROGRAMS), remedy
    changed = [name for name, program in PROGRAMS.items() if recorded()[name][0] != digest_of(program)]
    # Each of them runs on Beam again, here and in all later runs. With another Python or Beam all of them do.
    assert len(changed) in (0, len(PROGRAMS)), f"{remedy}; changed: {changed}"


def test_what_is_recorded_of_another_program_does_not_count(monkeypatch):
    name = "combine_with_built_in_functions"
    _, results = recorded()[name]
    assert Beam().run([PROGRAMS[name]])[name] == results
    monkeypatch.setattr("tests.parity.recorded.recorded", lambda: {name: ("another", {})})
    assert RecordedBeam()[name] == results
    monkeypatch.setattr("tests.parity.recorded.recorded", lambda: {name: (digest_of(PROGRAMS[name]), {})})
    assert RecordedBeam()[name] == {}


def test_programs_beside_each_other_stay_apart(in_memory):
    local = Headrace(LocalRunner)
    for batch in batches([*PROGRAMS.values()][:: examples(4, 1)], size=10):
        together = local.run(batch)
        for program in batch:
            assert together[program.name] == in_memory[program.name], program.name


@pytest.mark.parametrize("name", WRONG)
def test_refused_like_beam(name, caplog):
    program, kind, message = WRONG[name]
    for world in (Beam(), Headrace(LocalRunner)):
        with caplog.at_level(logging.CRITICAL), pytest.raises(kind, match=message or None):
            world.run([program])


OTHER = {"is_first": False, "timing": "LATE", "index": 7, "nonspeculative_index": 7}


def test_the_comparison_sees_every_field():
    program = Program("probe", lambda beam, p: p | beam.Create([("a", 1)]) | beam.CombinePerKey(sum))
    results = Headrace(LocalRunner).run([program])["probe"]
    (element,) = results[""]
    changed = [
        element._replace(value="('a', 2)"),
        element._replace(timestamp_us=element.timestamp_us - 1000),
        element._replace(window="[0, 1)"),
        *(element._replace(pane=element.pane._replace(**{field: other})) for field, other in OTHER.items()),
    ]
    assert differences(program, results, results) == []
    assert all(differences(program, results, {"": [other]}) for other in changed)
    assert differences(program, results, {"": [element, element]})
    assert differences(program, results, {"": []})
    assert differences(program, results, {"other": [element]})
    # The last pane at Beam must be the last here too; only the other way round it may be another.
    not_last = {"": [element._replace(pane=element.pane._replace(is_last=False))]}
    assert differences(program, results, not_last)
    assert differences(program, not_last, results) == []
