"""Drivers that die at every kind of moment of their lives, and of their recoveries, and are started again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headrace.runners.engine.options import RunResult
from tests.faults import mill
from tests.faults.life import Mortal, Outside, dies, live, one_of_each, stored
from tests.faults.pipelines import Script
from tests.faults.tally import Tally
from tests.stores import DictStore

pytestmark = pytest.mark.faults

BLOCKS = 4
"""Parts that run side by side."""
EFFECTS = ("delivery", "put_if_absent log", "put_if_absent leases", "put_if_absent headrace", "put deltas", "list log")
STEPS = {"plan", "run level 0", "run level 1", "saved level 1", "commit", "committed", "deliver", "delivered"}
KINDS = STEPS | {f"{when} {what}" for when in ("before", "after") for what in EFFECTS}
"""Moments that every life has."""


CASES = {"mill": mill.Mill, "pipeline": Script}


class Case:
    """A topology of a seed, an undisturbed life of it, and what is right."""

    def __init__(self, name: str, seed: int, run: Tally) -> None:
        self.what = CASES[name](seed)
        self.seed, self._run = seed, run
        self.calm, self.outside, self.store = Mortal(seed), Outside(), DictStore()
        self.result = self.live(self.outside, self.store, self.calm)
        run.note("changes of key intervals in undisturbed lives", len(self.calm.changes))
        assert bool(self.calm.changes) == bool(seed % 2), "key intervals were to change with every other seed"
        for sink, expected in self.what.expected().items():
            run.compare(expected, self.outside.values(sink), f"undisturbed, {sink}")

    def live(self, outside: Outside, store: DictStore, mortal: Mortal) -> RunResult:
        """One life."""
        return live(self.what.topology, outside, store, mortal)

    def live_on(self, outside: Outside, store: DictStore, salt: int, when: str) -> None:
        """The last life. Outputs, with timestamps, state and counts are those of the undisturbed one."""
        result = self.live(outside, store, Mortal(self.seed + salt))
        for sink in self.what.expected():
            self._run.compare(self.outside.got(sink), outside.got(sink), f"{when}, {sink}")
        assert stored(store) == stored(self.store), when
        assert records(result) == records(self.result), when

    def die(self, outside: Outside, store: DictStore, salt: int, at: int) -> str:
        """A life that ends at a moment; the kind of moment that it was."""
        mortal = Mortal(self.seed + salt, at)
        assert dies(lambda: self.live(outside, store, mortal)), f"the fault did not fire at moment {at}"
        return mortal.moments[-1]


def records(result: RunResult) -> dict[str, int]:
    """Records that each computation has processed, without repeats."""
    return {name: of["records"] for name, of in result.counters.items() if name in result.watermarks}


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_kind_of_moment(tally: Callable[[int], Tally], name: str, block: int) -> None:
    run, kinds = tally(1), set()
    for seed in run.seeds(2, 1000, block, BLOCKS):
        case = Case(name, seed, run)
        for kind, at in one_of_each(case.calm.moments, Random(seed)).items():
            run.plan()
            outside, store = Outside(), DictStore()
            assert case.die(outside, store, 0, at) == kind
            run.fire()
            kinds.add(kind)
            case.live_on(outside, store, 1, f"killed at moment {at}, {kind}")
    assert kinds >= KINDS or not kinds, KINDS - kinds


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", CASES)
def test_killed_while_recovering_twice_running(tally: Callable[[int], Tally], name: str, block: int) -> None:
    run = tally(2)
    for seed in run.seeds(4, 200, block, BLOCKS):
        case, random = Case(name, seed, run), Random(f"twice {seed}")
        outside, store = Outside(), DictStore()
        case.die(outside, store, 0, random.randrange(len(case.calm.moments)))
        for again in (1, 2):
            run.plan()
            recovery = recovering(case, outside, store, again)
            at = random.randrange(len(recovery))
            assert case.die(outside, store, again, at) == recovery[at]
            run.fire()
        case.live_on(outside, store, 3, "killed while recovering")
        run.note("deliveries repeated", outside.repeated)


def recovering(case: Case, outside: Outside, store: DictStore, salt: int) -> list[str]:
    """The moments that the next life would have until its first epoch is delivered, or until it is over."""
    mortal = Mortal(case.seed + salt)
    case.live(Outside(dict(outside.rows)), DictStore(store.objects), mortal)
    moments = mortal.moments
    return moments[: moments.index("delivered") + 1] if "delivered" in moments else moments
