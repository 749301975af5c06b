"""Requests to a running driver: to change its topology between two epochs (MillWheel paper §3), or to stop.

Requests may come from any thread. The driver handles them after the commit of one epoch and before the start of the
next, and commits each change separately. A refused change has no effect on the run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock

from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.clock import Wakeup

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
    at_once: bool = False
    """Whether nobody waits for the end of the epoch any more."""
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

    def told(self, durable: bool) -> str:
        """What remains of the run after its end, in words; `durable` says whether it has a checkpoint."""
        if self.finished:
            return "the input has ended, and nothing is left to do"
        if not durable:
            return "without a checkpoint nothing of the run is kept"
        if self.committed is None:
            return "nothing is committed by this run; start it again to go on"
        return f"epoch {self.committed:,} is committed; start it again to go on from there"

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
