"""A run in the background: it is waited for, stopped or cancelled, and its topology changed, from any thread.

    running = runner.start(topology, options)
    running.add(more)           # from the next epoch on
    running.remove("totals")    # its state is archived
    result = running.wait()

A run that goes on when the program ends is stopped after its epoch, or at once if that takes long; what is committed
stays. After `heed_signals` a signal does the same, and ends the program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Event, Thread

from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.python_private import call_before_threads_end
from headrace.lowlevel.topology.topology import Topology, joined_topology, reduced_topology
from headrace.runners.engine.activity import Activity, Following
from headrace.runners.engine.driver.signals import BackgroundWatch, end_in_time
from headrace.runners.engine.driver.topology_change import Changes
from headrace.runners.engine.options import EpochProgress, RunOptions, RunResult

_log = logging.getLogger(__name__)
_going_on: set[Running] = set()


def _end_all() -> None:
    """End the runs that the program has left, as their threads would otherwise end in the middle of an epoch."""
    runs = list(_going_on)
    for run in runs:
        run.stop()
    for run in runs:
        # After Ctrl-C nobody is to wait for an epoch.
        run.changes.at_once |= run._is_interrupted
        run.cancel()
        _log.warning("the program is at its end and its run was not: %s", run.told)


# Later Spark may be stopped already.
call_before_threads_end(_end_all)


class Running:
    """A run in the background. Its methods may be called from any thread.

    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20)]))
    >>> running = LocalRunner().start(topology)
    >>> running.wait().epochs
    1
    """

    def __init__(
        self, topology: Topology, options: RunOptions, run: Callable[[RunOptions, Changes], RunResult]
    ) -> None:
        self.changes = Changes(topology)
        self._is_durable = not (options.checkpoint or "memory:").startswith("memory:")
        self._result: Future[RunResult] = Future()
        self._over = Event()
        self._last: EpochProgress | None = None
        self._activity: Activity | None = None
        options = replace(options, progress=Following(options.progress, self._note, self._begin))
        self._waiting, self._is_interrupted = 0, False
        self._watch: BackgroundWatch | None = None
        _going_on.add(self)
        self._thread = Thread(target=self._work, args=(options, run), name="headrace-run", daemon=True)
        self._thread.start()

    def _work(self, options: RunOptions, run: Callable[[RunOptions, Changes], RunResult]) -> None:
        try:
            result = run(options, self.changes)
        except BaseException as error:
            self.changes.close(error)
            self._result.set_exception(error)
            if not self._waiting and not self.changes.stopping:
                _log.error("the run has failed; wait() raises this error", exc_info=error)
        else:
            self.changes.close()
            self._result.set_result(result)
        finally:
            _going_on.discard(self)
            self._over.set()
            if self._watch is not None:
                self._watch.run_over(self.changes)

    def heed_signals(self) -> None:
        """Let SIGTERM and SIGHUP end the run after its epoch, and then the main thread, if this is called in it.

        Signals that the program handles stay with it.
        """
        self._watch = BackgroundWatch.of(self.changes, self._is_durable)
        if self._watch is not None and self.is_over:
            self._watch.run_over(self.changes)

    def _note(self, epoch: EpochProgress) -> None:
        self._last = epoch

    def _begin(self, activity: Activity) -> None:
        self._activity = activity

    @property
    def progress(self) -> EpochProgress | None:
        """The figures of the last epoch that is committed, also by an earlier run; None if there is none."""
        return self._last or (None if self._activity is None else self._activity.recovered)

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended because its input has; another start would have nothing to do."""
        return self.is_over and self.changes.finished

    @property
    def error(self) -> BaseException | None:
        """The error by which the run has ended; None if it goes on, or has ended without an error."""
        return self._result.exception() if self.is_over else None

    @property
    def told(self) -> str:
        """What remains of the run, in words."""
        return self.changes.told(self._is_durable)

    def update(self, topology: Topology, consent: Consent | None = None) -> int:
        """Continue with another topology. Waits for the commit of the change, and returns its epoch.

        A member with the same name in both topologies continues: a computation with its state and timers, an injector
        at its position. The state of a member that the new topology lacks is archived, if `consent` allows that.

        Raises:
            TopologyError: The topology cannot run.
            TopologyChangeError: The topology cannot continue from the stored state; the message names the differences.
            RunOverError: The run has ended.
        """
        return self.changes.request(lambda _: topology, consent or Consent()).result()

    def add(self, more: Topology, consent: Consent | None = None) -> int:
        """Add the members of `more`, which may read existing streams. Result and errors are those of `update`."""
        return self.changes.request(lambda now: joined_topology(now, more), consent or Consent()).result()

    def remove(self, *names: str, consent: Consent | None = None) -> int:
        """Remove computations, sinks or injectors (by stream) and archive their state.

        Result and errors are those of `update`.
        """
        given = consent or Consent()
        allowed = replace(given, removed={*given.removed, *names})
        return self.changes.request(lambda now: reduced_topology(now, names), allowed).result()

    def stop(self) -> None:
        """Ask the run to end after the current epoch; the next start on its checkpoint continues after that epoch.

        Returns at once; `wait` waits for the end. A run that is waiting for input or for a timer ends without delay.
        """
        self.changes.stop()

    def cancel(self) -> bool:
        """End the run after the current epoch, or at once if that takes more than 20 seconds; what is committed stays.

        Returns whether the run has ended: code of the program may keep it from that.
        """
        self.changes.stop()
        return end_in_time(self.changes, self.ends_within)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, normally or with an error."""
        return self._over.is_set()

    def ends_within(self, seconds: float | None = None) -> bool:
        """Wait for the end of the run; returns False if it has not ended after `seconds`."""
        self._waiting += 1
        try:
            self._over.wait(seconds)
        except KeyboardInterrupt:
            self._is_interrupted = True
            raise
        finally:
            self._waiting -= 1
        if not self.is_over:
            return False
        # The thread has still to tell the watch, which is what gives signals free.
        self._thread.join()
        if self._watch is not None:
            self._watch.restore()
        return True

    def wait(self, seconds: float | None = None) -> RunResult:
        """Wait for the end of the run, and return its result.

        Raises the error by which the run ended, or `TimeoutError` if the run has not ended after `seconds`.
        """
        if not self.ends_within(seconds):
            raise TimeoutError(f"the run has not ended after {seconds} seconds")
        return self._result.result()
