"""The runs whose topologies a worker process has loaded, and their teardown."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from headrace.lowlevel.metric import Where
from headrace.lowlevel.processing.state_cache import StateCache
from headrace.runners.spark.statestore.store_cache import Sweeping
from headrace.runners.spark.worker.host import SparkHost
from headrace.runners.spark.worker.task_payload import PayloadContents, TaskPayload

_MOST = 4
"""Largest number of loaded runs."""


class LoadedRuns:
    """Unpacked task payloads, each with its host; user code is torn down when a run leaves.

    After that, or if user code could not be set up, a payload is unpacked again for the next task, as an instance is
    set up only once. So it is after a task that failed or was given up: its functions have begun bundles that they did
    not finish, and must not be called again.
    """

    def __init__(self, step_begins: Callable[[Where], None] | None = None) -> None:
        """`step_begins` is called with the name of each step whose code begins to run."""
        self._step_begins = step_begins
        self._sweeping = Sweeping()
        self._runs: OrderedDict[TaskPayload, tuple[PayloadContents, SparkHost]] = OrderedDict()

    def take(self, payload: TaskPayload) -> tuple[PayloadContents, SparkHost]:
        """The unpacked payload, and its host; if there are more than four runs, the least recently used one leaves."""
        run = self._runs.get(payload)
        if run is not None and run[1].has_failed:
            run[0].program.teardown()
        if run is None or run[0].program.is_over:
            contents = payload.unpack()
            host = self._host_of(contents) or self._new_host(contents)
            run = self._runs[payload] = (contents, host)
        self._runs.move_to_end(payload)
        if len(self._runs) > _MOST:
            self.leave(next(iter(self._runs)))
        return run

    def _new_host(self, contents: PayloadContents) -> SparkHost:
        self._sweeping.when_due()
        return SparkHost(contents.store, contents.run, contents.cache_bytes, self._step_begins)

    def _host_of(self, contents: PayloadContents) -> SparkHost | None:
        """The host that the run had with an earlier topology, if any: no process may open a state store twice."""
        for payload, (before, host) in list(self._runs.items()):
            if before.run == contents.run:
                self.leave(payload)
                # Classes of cached objects may have changed, and the checkpoint may be a copy of the previous one.
                host.states = StateCache(contents.cache_bytes)
                host.move_to(contents.store)
                return host
        return None

    def leave(self, payload: TaskPayload) -> None:
        """Tear down a run; no task of it follows in this process."""
        if (run := self._runs.pop(payload, None)) is not None:
            run[0].program.teardown()

    def leave_all(self) -> None:
        """Tear down all runs, as the process ends."""
        while self._runs:
            self.leave(next(iter(self._runs)))
