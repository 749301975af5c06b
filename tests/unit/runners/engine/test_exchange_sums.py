"""Attempts of many tasks fit together if all that was sent was consumed, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headrace.runners.engine.messages import COMMITTED, NEVER, Exchange, Sender, consumed_sum, mismatches, sent_sums

LEVELS, TASKS = 3, 5


class World:
    """Reports of tasks that fit together."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.senders = {
            (level, index): Sender(level, index, f"token {level} {index}")
            for level in range(LEVELS + 1)
            for index in range(TASKS)
        }
        self.consumers = {
            task: {other for other in self.senders if other[0] > task[0] and self.dice.random() < 0.3}
            for task in self.senders
        }

    def reports(self, replaced: dict[tuple[tuple[int, int], tuple[int, int]], Sender | None]) -> list[Exchange]:
        """Reports; (sender, consumer) -> what the consumer had instead of what the sender reports."""
        made = []
        for task, sender in self.senders.items():
            heard = [self.senders[other] for other, consumers in self.consumers.items() if task in consumers]
            for (other, consumer), had in replaced.items():
                if consumer == task:
                    heard = [each for each in heard if each != self.senders[other]] + ([had] if had else [])
            sums = sent_sums(sender, self.consumers[task])
            made.append(Exchange(sender, sent_sums=sums, consumed_sum=consumed_sum([COMMITTED, *heard], task)))
        self.dice.shuffle(made)
        return made


@pytest.mark.parametrize("seed", range(30))
def test_every_attempt_that_was_consumed_instead_of_another_is_found(seed: int) -> None:
    world = World(seed)
    assert mismatches(world.reports({}), LEVELS, TASKS) == ""
    pairs = [(task, consumer) for task, consumers in world.consumers.items() for consumer in sorted(consumers)]
    task, consumer = world.dice.choice(pairs)
    another = replace(world.senders[task], token="another")
    # It had the output of another attempt, or of another attempt that had sent it nothing.
    for had in (another, None):
        found = mismatches(world.reports({(task, consumer): had}), LEVELS, TASKS)
        assert found == f"level {consumer[0]}: productions of attempts were used that are not to be committed"


def test_output_of_another_attempt_where_the_committed_one_sent_nothing() -> None:
    world = World(3)
    task = next(task for task, consumers in world.consumers.items() if not task[0] and (1, 0) not in consumers)
    extra = {(task, (1, 0)): replace(world.senders[task], token="another")}
    assert mismatches(world.reports(extra), LEVELS, TASKS).startswith("level 1: productions")


def test_attempts_that_may_replace_each_other_do() -> None:
    sender, again = (Sender(0, 0, token, output_digest="weak 1") for token in ("a", "b"))
    reports = [
        Exchange(sender, sent_sums=sent_sums(sender, [(1, 0)])),
        Exchange(Sender(1, 0, "c"), consumed_sum=consumed_sum([again], (1, 0))),
    ]
    assert mismatches(reports, 1, 1) == ""


def test_a_task_that_did_not_report_or_refused() -> None:
    world = World(5)
    silent = [report for report in world.reports({}) if report.sender.level != 3 or report.sender.index]
    assert "level 3: 1 of 5 tasks did not report" in mismatches(silent, LEVELS, TASKS)
    refused = [Exchange(Sender(1, 0, "a"), consumed_sum=NEVER, sent_sums={1: NEVER})]
    assert mismatches(refused, 1, 1) == "level 1: productions of attempts were used that are not to be committed"
