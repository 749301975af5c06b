"""What a test of the fault suite tells of itself: faults planned and fired, what was lost or doubled, recovery times.

A test asks for the fixture `tally`, says which row of `docs/reliability.md` it belongs to, and counts:

    def test_something(tally):
        run = tally(row=1)
        for seed in run.seeds(quick=20, full=1000):
            run.plan()
            ...
            run.fire()
            run.compare(expected, came, "what the sinks got")

A test in which a planned fault did not fire fails. A failing one says which seed repeats it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.depth import seeds

PROPERTY = "faults"
"""Name under which a test's tallies travel with its report, also from another process."""

CONNECTOR = "faults of "
"""What the names of figures about a connector begin with."""


@dataclass
class Tally:
    """What one test did to one row."""

    row: int
    planned: int = 0
    """Faults that were to happen."""
    fired: int = 0
    """Faults that did happen, as the test has seen for itself."""
    lost: int = 0
    """Outputs that are missing."""
    duplicated: int = 0
    """Outputs that should not be there."""
    recovery_seconds: float = 0.0
    """The longest time from a fault to the next commit; 0 where nothing was measured."""
    notes: dict[str, int] = field(default_factory=dict)
    """More figures, by name."""
    seed: int | None = None
    """The one being tried."""

    def seeds(self, quick: int, full: int, block: int = 0, blocks: int = 1) -> Iterator[int]:
        """See `tests.depth.seeds`; remembers which one is being tried."""
        for self.seed in seeds(quick, full, block, blocks):
            yield self.seed
        self.seed = None

    def plan(self, faults: int = 1) -> None:
        """So many faults are about to be injected."""
        self.planned += faults

    def fire(self, faults: int = 1) -> None:
        """So many have happened."""
        self.fired += faults

    def recovered(self, seconds: float) -> None:
        """It took so long from a fault to the next commit."""
        self.recovery_seconds = max(self.recovery_seconds, seconds)

    def note(self, name: str, number: int = 1) -> None:
        """Add to a further figure; of one whose name begins with `most` the greatest counts."""
        old = self.notes.get(name, 0)
        self.notes[name] = max(old, number) if name.startswith("most ") else old + number

    def hit(self, connector: str) -> None:
        """A fault that has happened was one of a connector; `docs/reliability.md` has a table of these."""
        self.note(CONNECTOR + connector)

    def compare(self, expected: Iterable[object], came: Iterable[object], what: str = "output") -> None:
        """Outputs in any order, both ways: nothing is missing, nothing is there that should not be."""
        wanted, got = Counter(map(repr, expected)), Counter(map(repr, came))
        missing, extra = wanted - got, got - wanted
        self.lost += missing.total()
        self.duplicated += extra.total()
        assert not missing and not extra, f"{what}: missing {_few(missing)}, too many {_few(extra)}"


def _few(values: Counter[str]) -> str:
    """Some of the values."""
    some = [f"{count} × {value:.100}" for value, count in sorted(values.items())[:5]]
    return f"{values.total()} ({', '.join(some)})" if some else "none"


_TALLIES = pytest.StashKey[list[Tally]]()
_FAILED = pytest.StashKey[bool]()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Callable[[int], Tally]]:
    """Begins a tally for a row; what it holds in the end goes to the report of `./dev faults`."""
    made: list[Tally] = []
    request.node.stash[_TALLIES] = made

    def begin(row: int) -> Tally:
        made.append(Tally(row))
        return made[-1]

    yield begin
    for each in made:
        request.node.user_properties.append((PROPERTY, {**vars(each), "seed": None}))
        if not request.node.stash.get(_FAILED, False):
            assert each.fired == each.planned, f"{each.planned} faults were planned, {each.fired} fired"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[object]:
    """A test that fails says which seed repeats it."""
    report = yield
    assert isinstance(report, pytest.TestReport)
    if report.failed:
        item.stash[_FAILED] = True
        trying = [each.seed for each in item.stash.get(_TALLIES, []) if each.seed is not None]
        report.sections += [("seed", f"HEADRACE_SEED={seed} repeats it") for seed in trying]
    return report
