"""A topology that changes while it runs, by seed and with crashes: what stays is as if nothing had come or gone."""

from __future__ import annotations

from random import Random

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, Fingerprint
from headrace.lowlevel.store import ObjectStore
from headrace.runners.local import Crash
from tests.depth import faults, seeds
from tests.faults.changing import OTHERS, STAYS, Changing, Outside, run, schedule, state, topology


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


def check(outside, place, undisturbed):
    expected, states = undisturbed
    assert outside.values("minutes") == expected.values("minutes")
    assert outside.values("arrived") == expected.values("arrived")
    assert {name: state(place, name) for name in STAYS} == states


@pytest.mark.parametrize("seed", seeds(5, 400))
def test_parts_that_come_and_go_leave_the_rest_alone(seed, tmp_path, undisturbed):
    outside, wanted = Outside(), schedule(seed)
    scheduler = Changing(seed, outside, wanted)
    result = run(scheduler, tmp_path)
    assert not scheduler.at and len(scheduler.asked) == len(wanted), f"seed {seed}: not every change was asked for"
    check(outside, tmp_path, undisturbed)
    there = present(scheduler.asked, result.epochs)
    minutes = outside.values("minutes", there.get("tally", ()))
    tallied = {}
    for (key, *_), _ in minutes:
        tallied[key] = tallied.get(key, 0) + 1
    assert counted(outside.values("tallied")) == tallied, f"seed {seed}"
    branched = [row for row, _ in outside.values("branched")]
    assert len(set(branched)) == len(branched), f"seed {seed}: input of the branch was read again"
    if "branch" in (scheduler.asked[-1][0]):
        assert sum(counted(outside.values("branched")).values()) == len(OTHERS), f"seed {seed}"
    fired = [key for key, _ in outside.values("fired")]
    assert len(set(fired)) == len(fired), f"seed {seed}: a timer fired again"
    if "waiting" in scheduler.asked[-1][0]:
        assert len(fired) == 5, f"seed {seed}"


CHANGES = {3: ("front", "tally"), 6: ("waiting",), 8: ("tally", "branch"), 11: ("front", "branch", "waiting")}


def test_a_crash_around_a_change_leaves_the_one_topology_or_the_other(tmp_path, undisturbed):
    whole = Changing(1, Outside(), CHANGES)
    run(whole, tmp_path / "whole")
    assert [name for name, _ in whole.names].count("changed") == len(CHANGES)
    crashed, seen = 0, set()
    for step in around_changes(whole.names):
        outside, place = Outside(), tmp_path / f"at-{step}"
        scheduler = Changing(1, outside, CHANGES, crash_at=step)
        with pytest.raises(Crash):
            run(scheduler, place)
        crashed += 1
        seen.add(_committed(outside, place, scheduler))
        again = Changing(step, outside, scheduler.at)
        run(again, place, scheduler.asked[-1][0] if scheduler.asked else ())
        check(outside, place, undisturbed)
        assert counted(outside.values("tallied")) is not None
    assert crashed >= 2 * len(CHANGES)
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
