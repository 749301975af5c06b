"""A run in the background, whose topology can be changed between two epochs (MillWheel paper §3).

    running = runner.start(topology, options)
    running.add(more)           # from the next epoch on
    running.remove("totals")    # its state is archived
    result = running.wait()

Requests may come from any thread. The driver handles them after the commit of one epoch and before the start of the
next, and commits each change separately. A refused change has no effect on the run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Lock, Thread

from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.topology.topology import Topology, joined_topology, reduced_topology
from headrace.runners.engine.clock import Wakeup
from headrace.runners.engine.options import RunResult

Revise = Callable[[Topology], Topology]
"""A function from the current topology to the wanted one."""


class RunOverError(HeadraceError, RuntimeError):
    """The run has ended, so its topology can no longer be changed.

    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20)]))
    >>> running = LocalRunner().start(topology)
    >>> result = running.wait()
    >>> running.update(topology)
    Traceback (most recent call last):
      ...
    headrace.runners.engine.driver.topology_change.RunOverError: the run is over; ...
    """


@dataclass(frozen=True, slots=True)
class Request:
    """A request to change the topology of a run."""

    revise: Revise
    consent: Consent
    done: Future[int]
    """Result: the epoch that commits the change, or the error by which the change is refused."""


@dataclass(slots=True)
class Changes:
    """Requests to a running driver: to change the topology, or to stop. Each request gets a result, even on failure."""

    topology: Topology
    """The current topology, as the user gave it."""
    stopping: bool = False
    """Whether the run is to end after the current epoch."""
    let_go: Callable[[], object] | None = None
    """Makes the current epoch fail; called from another thread than the driver's, which may be waiting for the epoch
    without a time limit."""
    committed: int | None = None
    """The last epoch that this run has committed."""
    finished: bool = False
    """Whether the input has ended, so that another start would have nothing to do; False after a mere stop."""
    wakeup: Wakeup = field(default_factory=Wakeup)
    """Ends a wait of the driver when there is a new request."""
    _waiting: deque[Request] = field(default_factory=deque)
    _current: Request | None = None
    _over: RunOverError | None = None
    """The error of requests that come after the end of the run; None during the run."""
    _lock: Lock = field(default_factory=Lock)

    def request(self, revise: Revise, consent: Consent) -> Future[int]:
        """Ask for another topology, without waiting for the answer. Any thread may call this method."""
        done: Future[int] = Future()
        with self._lock:
            if self._over is not None:
                done.set_exception(self._over)
            else:
                self._waiting.append(Request(revise, consent, done))
        self.wakeup.call()
        return done

    def stop(self) -> None:
        """Let the run end after the current epoch. Any thread, and a signal handler, may call this method."""
        self.stopping = True
        self.wakeup.call()

    def take(self) -> Request | None:
        """Take the oldest waiting request, or None if there is none. The request is current until the next call."""
        self._current = self._waiting.popleft() if self._waiting else None
        return self._current

    def close(self, error: BaseException | None = None) -> None:
        """Note the end of the run: unanswered requests fail with `error` or `RunOverError`, and later ones are refused.

        `error` is the error by which the run ended, None if it ended normally.
        """
        with self._lock:
            self._over = self._over or _over(error)
        waiting = [self._current, *self._waiting]
        self._waiting.clear()
        for request in waiting:
            if request is not None and not request.done.done():
                request.done.set_exception(error or self._over)


def _over(error: BaseException | None) -> RunOverError:
    remedy = "start the changed pipeline on its checkpoint"
    if error is None:
        return RunOverError(f"the run is over; {remedy}")
    over = RunOverError(f"the run ended with an error, after which {remedy}\n{type(error).__name__}: {error}")
    over.__cause__ = error
    return over


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

    def __init__(self, topology: Topology, run: Callable[[Changes], RunResult]) -> None:
        self.changes = Changes(topology)
        self._result: Future[RunResult] = Future()
        self._thread = Thread(target=self._work, args=(run,), name="headrace-run", daemon=True)
        self._thread.start()

    def _work(self, run: Callable[[Changes], RunResult]) -> None:
        try:
            result = run(self.changes)
        except BaseException as error:
            self.changes.close(error)
            self._result.set_exception(error)
        else:
            self.changes.close()
            self._result.set_result(result)

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

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, normally or with an error."""
        return self._result.done()

    def wait(self, seconds: float | None = None) -> RunResult:
        """Wait for the end of the run, and return its result.

        Raises the error by which the run ended, or `TimeoutError` if the run has not ended after `seconds`.
        """
        return self._result.result(seconds)
