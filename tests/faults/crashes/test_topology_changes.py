"""A topology that changes while it runs, by seed and with crashes: what stays is as if nothing had come or gone."""

from __future__ import annotations

from random import Random

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, Fingerprint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.local import Crash
from tests.depth import faults
from tests.faults.changing import OTHERS, STAYS, Changing, Outside, run, schedule, state, topology

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The outputs and the state of a run that has what stays, and nothing else."""
    place, outside = tmp_path_factory.mktemp("undisturbed"), Outside()
    run(Changing(0, outside, {}), place)
    return outside, {name: state(place, name) for name in STAYS}


def present(asked, last):
    """Part -> the epochs in which it was there."""
    found, parts, since = {}, (), 1
    for wanted, done in [*asked, ((), None)]:
        until = last + 1 if done is None else done.result(0)
        for part in parts:
            found.setdefault(part, set()).update(range(since, until))
        parts, since = wanted, until
    return found


def counted(rows):
    """Key -> how many records, as the last of each key says; they are told one after another, without a gap."""
    by_key = {}
    for (key, count), _ in rows:
        by_key.setdefault(key, []).append(count)
    assert all(sorted(counts) == list(range(1, len(counts) + 1)) for counts in by_key.values())
    return {key: len(counts) for key, counts in by_key.items()}


def check(tally, outside, place, undisturbed):
    expected, states = undisturbed
    for sink in ("minutes", "arrived"):
        tally.compare(expected.values(sink), outside.values(sink), sink)
    assert {name: state(place, name) for name in STAYS} == states


def test_parts_that_come_and_go_leave_the_rest_alone(tally, tmp_path, undisturbed):
    run_of = tally(15)
    for seed in run_of.seeds(quick=5, full=400):
        wanted, outside, place = schedule(seed), Outside(), tmp_path / str(seed)
        scheduler = Changing(seed, outside, wanted)
        run_of.plan(len(wanted))
        result = run(scheduler, place)
        run_of.fire(sum(done.result(0) > 0 for _, done in scheduler.asked))
        check(run_of, outside, place, undisturbed)
        check_parts(run_of, outside, scheduler.asked, result.epochs)


def check_parts(tally, outside, asked, epochs):
    """What came and went has seen all that came while it was there, with the state that it had before."""
    there, last = present(asked, epochs), asked[-1][0]
    tallied = {}
    for (key, *_), _ in outside.values("minutes", there.get("tally", ())):
        tallied[key] = tallied.get(key, 0) + 1
    tally.compare(tallied.items(), counted(outside.values("tallied")).items(), "tallied")
    branched = counted(outside.values("branched"))
    assert sum(branched.values()) == len(OTHERS) or "branch" not in last
    fired = [key for key, _ in outside.values("fired")]
    assert len(set(fired)) == len(fired), "a timer fired again"
    assert len(fired) == 5 or "waiting" not in last


CHANGES = {3: ("front", "tally"), 6: ("waiting",), 8: ("tally", "branch"), 11: ("front", "branch", "waiting")}


def test_a_crash_around_a_change_leaves_the_one_topology_or_the_other(tally, tmp_path, undisturbed):
    run_of, seen = tally(15), set()
    whole = Changing(1, Outside(), CHANGES)
    run(whole, tmp_path / "whole")
    assert [name for name, _ in whole.names].count("changed") == len(CHANGES)
    for step in around_changes(whole.names):
        outside, place = Outside(), tmp_path / f"at-{step}"
        scheduler = Changing(1, outside, CHANGES, crash_at=step)
        run_of.plan()
        with pytest.raises(Crash):
            run(scheduler, place)
        run_of.fire()
        seen.add(_committed(outside, place, scheduler))
        again = Changing(step, outside, scheduler.at)
        run(again, place, scheduler.asked[-1][0] if scheduler.asked else ())
        check(run_of, outside, place, undisturbed)
        counted(outside.values("tallied"))
    assert seen >= {(), *CHANGES.values()}, "not every topology was found after some crash"


def around_changes(names):
    """Numbers of the steps to crash at: those of each change, and some of the epochs before and after it."""
    changes = {epoch for name, epoch in names if name == "changed"}
    at = [number for number, (name, _) in enumerate(names, 1) if name in ("change", "changed")]
    near = [number for number, (_, epoch) in enumerate(names, 1) if {epoch - 1, epoch + 1} & changes]
    return sorted({*at, *Random(0).sample(near, min(len(near), faults(3, 1000)))})


def _committed(outside, place, scheduler):
    """The parts of the topology that is committed: those asked for last, or those before; None if there is none."""
    manifest = Checkpoint.read(ObjectStore(str(place))).manifest if any(place.glob("*")) else None
    if manifest is None:
        return None
    possible = [(), *(parts for parts, _ in scheduler.asked)][-2:]
    found = [parts for parts in possible if Fingerprint.of(topology(outside, parts)) == manifest.topology]
    assert len(found) == 1, f"{manifest.topology} is none of {possible}"
    assert set(manifest.input_watermarks) == {name for names in manifest.topology.levels for name in names}
    assert set(manifest.positions) == set(topology(outside, found[0]).injectors)
    assert set(manifest.intervals) == set(range(1, len(manifest.topology.levels) + 1))
    return found[0]
