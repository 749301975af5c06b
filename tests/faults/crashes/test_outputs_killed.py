"""Files and topics: the process that writes to them gets SIGKILL, at every moment and at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.crashes.outputworlds import OUTPUTS
from tests.faults.crashes.tablelives import Life, Lives, Trial, lives
from tests.faults.crashes.tableworlds import settled
from tests.faults.tally import Tally
from tests.kafkacluster import cluster

pytestmark = pytest.mark.faults
Trying = Callable[[str], Trial]


@pytest.fixture(scope="module")
def processes() -> Iterator[Lives]:
    with lives() as made:
        yield made


@pytest.fixture
def trying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Lives, tally: Callable[[int], Tally]) -> Trying:
    """Lives that write to one of the outputs."""

    def begin(name: str) -> Trial:
        address = cluster().servers if name == "kafka" else None
        world = settled(OUTPUTS[name], tmp_path / "world", monkeypatch, address)
        life = Life(name, str(tmp_path / "world"), "append", str(tmp_path / "checkpoint"))
        return Trial(world, life, processes, tally(21))

    return begin


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_a_process_killed_at_each_moment(name: str, trying: Trying) -> None:
    trying(name).killed_at_each_moment()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OUTPUTS.keys() - {"kafka"}))
def test_a_process_killed_at_any_time_again_and_again(name: str, trying: Trying) -> None:
    """Not of Kafka: the broker of the tests shows what was sent before a kill in mid-transaction."""
    trying(name).killed_at_any_time()
