"""An aggregation dies with 60 of 100 transactions checkpointed: the rest is replayed, and nothing is counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.recovery import ALERT, DIES, OPTIONS, PRICES, TRANSACTIONS, Source, topology

pytestmark = pytest.mark.faults


class CrashAt(Scheduler):
    """Crashes at a step of an epoch."""

    def __init__(self, name: str, epoch: int) -> None:
        self._at = (name, epoch)

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == self._at:
            raise Crash


class Story:
    """The world around a run: what outlives its crashes."""

    def __init__(self, folder: Path) -> None:
        self.outside = Outside()
        self.seen: list[int] = []
        """Transactions that the aggregation's code saw, in the current life."""
        self._folder = folder
        self._acknowledged = folder / "acknowledged"

    @property
    def acknowledged(self) -> int:
        return Source(self._acknowledged).acknowledged

    def live(self, scheduler: Scheduler) -> RunResult:
        self.seen.clear()
        made = topology(Source(self._acknowledged), self.outside.take, self.seen.append)
        runner = LocalRunner(scheduler=scheduler, intervals=2)
        return runner.run_topology(made, RunOptions(str(self._folder / "checkpoint"), **OPTIONS))


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def test_sixty_of_a_hundred_are_checkpointed_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    story = Story(tmp_path)
    with pytest.raises(Crash):
        story.live(CrashAt(*DIES))
    assert sorted(story.seen) == numbers(1, 70)  # the last ten were processed, but are in no checkpoint
    assert len(story.outside.values("balances")) == 60
    assert story.acknowledged == 50  # the acknowledgement of 51 to 60 was lost with the crash

    result = story.live(Scheduler())
    assert sorted(story.seen) == numbers(61, 100)  # 51 to 60 came again, and did not reach the code
    assert result.counters["aggregation"]["duplicates"] == 10
    assert result.counters["aggregation"]["records"] == 100
    assert_each_counted_once(story)


@pytest.mark.parametrize(
    ("step", "checkpointed", "acknowledged"),
    [
        ("plan", 60, 50),  # before anything of the epoch is read
        ("run level 1 task 1", 60, 50),  # one half of the aggregation has run, the other has not
        ("saved level 1 task 0", 60, 50),  # its state is written, but no commit names it
        ("run level 2 task 1", 60, 50),  # alerts have been made of what is not committed
        ("committed", 70, 50),  # the checkpoint is there, but the sinks do not have it
        ("delivered", 70, 60),
    ],
)
def test_wherever_it_dies(tmp_path: Path, step: str, checkpointed: int, acknowledged: int) -> None:
    story = Story(tmp_path)
    with pytest.raises(Crash):
        story.live(CrashAt(step, 7))
    assert story.acknowledged == acknowledged
    result = story.live(Scheduler())
    assert sorted(story.seen) == numbers(checkpointed + 1, 100)
    assert result.counters["aggregation"]["duplicates"] == checkpointed - acknowledged
    assert_each_counted_once(story)


def assert_each_counted_once(story: Story) -> None:
    """Every balance follows from the transactions in its log, and each transaction is in one place of one log."""
    price = {each.number: PRICES[each.product] for each in TRANSACTIONS}
    logs: dict[str, tuple[int, ...]] = {}
    balances = [value for value, _ in story.outside.values("balances")]
    assert len(balances) == len(TRANSACTIONS)
    for account, balance, log in sorted(balances, key=lambda value: len(value[2])):
        assert balance == sum(price[number] for number in log)
        assert log[:-1] == logs.get(account, ())
        logs[account] = log
    assert sorted(number for log in logs.values() for number in log) == numbers(1, 100)
    high = {account for account, balance, _ in balances if balance >= ALERT}
    assert sorted(account for (account, _), _ in story.outside.values("alerts")) == sorted(high)
    assert len(high) > 5
