"""A run in the background, and how its topology is changed between two epochs (MillWheel paper §3).

    running = runner.start(topology, options)
    running.add(more)           # from the next epoch on
    running.remove("totals")    # its state is archived
    result = running.wait()

Requests come from any thread. The driver takes them where one epoch is committed and the next is not begun, and
commits each change by itself; what is refused leaves the run as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Lock, Thread

from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.revision import joined, without
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.options import RunResult
from headrace.runners.engine.wakeup import Wakeup

Revise = Callable[[Topology], Topology]
"""From the topology that runs to the one that shall."""


class RunOverError(HeadraceError, RuntimeError):
    """The run has ended, so nothing of it can be changed."""


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody wants another topology."""

    revise: Revise
    consent: Consent
    done: Future[int]
    """The epoch that commits it, or why it is refused."""


@dataclass(slots=True)
class Changes:
    """What is asked of a running driver: other topologies, or to stop. Every request ends, whatever the run does."""

    topology: Topology
    """The one that runs, as it was given."""
    stopping: bool = False
    """Whether the run is to end after the epoch that is running."""
    let_go: Callable[[], object] | None = None
    """Makes the epoch that is running fail, from another thread, where the driver's own may wait for it without end."""
    committed: int | None = None
    """The last epoch that this run has committed."""
    finished: bool = False
    """Whether the run has come to its end, and not only to a stop: there is nothing to go on with."""
    wakeup: Wakeup = field(default_factory=Wakeup)
    """Ends the driver's waits when something is asked."""
    _waiting: deque[Request] = field(default_factory=deque)
    _current: Request | None = None
    _over: RunOverError | None = None
    """Why nothing more can be asked."""
    _lock: Lock = field(default_factory=Lock)

    def request(self, revise: Revise, consent: Consent) -> Future[int]:
        """Ask for another topology. Thread-safe; does not wait."""
        done: Future[int] = Future()
        with self._lock:
            if self._over is not None:
                done.set_exception(self._over)
            else:
                self._waiting.append(Request(revise, consent, done))
        self.wakeup.call()
        return done

    def stop(self) -> None:
        """Let the run end after the epoch that is running. Callable from any thread, and from a signal handler."""
        self.stopping = True
        self.wakeup.call()

    def next(self) -> Request | None:
        """The oldest request that nobody has looked at. Until the next call it is the one under way."""
        self._current = self._waiting.popleft() if self._waiting else None
        return self._current

    def close(self, error: BaseException | None = None) -> None:
        """The run is over, with this error if any: whoever waits for a request is told, and later ones are refused."""
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
    """A run in the background. Its methods may be called from any thread."""

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
        """Go on with another topology; returns the epoch that commits the change, when it is committed.

        Whatever has the same name in both goes on: computations with state and timers, injectors where they are. What
        is gone is archived, if `consent` allows that.

        Raises:
            TopologyError: The topology cannot run.
            TopologyChangeError: What is stored cannot go on with it; the differences are named.
            RunOverError: There is no run any more.
        """
        return self.changes.request(lambda _: topology, consent or Consent()).result()

    def add(self, more: Topology, consent: Consent | None = None) -> int:
        """Go on with what `more` has besides, which may read streams that there are. As `update`."""
        return self.changes.request(lambda now: joined(now, more), consent or Consent()).result()

    def remove(self, *names: str, consent: Consent | None = None) -> int:
        """Go on without computations, sinks or injectors (by stream), whose state is archived. As `update`."""
        given = consent or Consent()
        allowed = replace(given, removed={*given.removed, *names})
        return self.changes.request(lambda now: without(now, names), allowed).result()

    def stop(self) -> None:
        """End the run after the epoch that is running; it goes on from there when it is started again.

        Returns at once; `wait` for the end. A run that waits for input or for a timer ends without delay.
        """
        self.changes.stop()

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, for good or ill."""
        return self._result.done()

    def wait(self, seconds: float | None = None) -> RunResult:
        """Wait for the end of the run, at most so long, and raise what it raised. Raises `TimeoutError`."""
        return self._result.result(seconds)
