"""What waits for a job that a stopped session has forgotten, by a cluster that is told what Spark knows."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event
from typing import cast

from headrace.runners.spark.cluster.cluster import Cluster
from headrace.runners.spark.stopped_session import end_forgotten_jobs


class ToldCluster:
    """A cluster that answers as it is told, and ends the run when it has nothing more to say."""

    def __init__(self, over: Event, stopped: Iterable[bool], waiting: Iterable[Iterable[int]] = ()) -> None:
        self._over, self._stopped, self._waiting = over, list(stopped), list(map(frozenset, waiting))
        self.ended: list[frozenset[int]] = []

    def is_stopped(self) -> bool:
        answer = self._stopped.pop(0)
        if not self._stopped and not self._waiting:
            self._over.set()
        return answer

    def forgotten_jobs(self) -> frozenset[int]:
        answer = self._waiting.pop(0)
        if not self._waiting:
            self._over.set()
        return answer

    def end_forgotten(self, jobs: frozenset[int]) -> None:
        self.ended.append(jobs)


def ended(stopped: Iterable[bool], waiting: Iterable[Iterable[int]] = ()) -> list[frozenset[int]]:
    over = Event()
    cluster = ToldCluster(over, stopped, waiting)
    end_forgotten_jobs(cast(Cluster, cluster), over, look_seconds=0.001, patience_seconds=0.001)
    return cluster.ended


def test_what_still_waits_at_a_second_look_is_ended() -> None:
    assert ended([False, True], [{1, 2}, {2, 3}, {3}, {4}]) == [{2}, {3}]


def test_what_the_session_ends_by_itself_is_left_alone() -> None:
    assert ended([True], [{1, 2}, {}, {1}]) == []


def test_a_session_that_goes_on_is_asked_for_nothing() -> None:
    assert ended([False, False, False]) == []
