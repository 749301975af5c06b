"""How a run ends at a signal: SIGTERM (Kubernetes, systemd, `kill`) or SIGHUP (a closed terminal).

The first signal lets the current epoch end and commit. After `GRACE_SECONDS`, or at a second signal that comes later
than `REPEAT_SECONDS`, the run ends at once, as with Ctrl-C; what is committed stays. If user code keeps the run from
ending for `LAST_SECONDS` more, the process exits. The exit code is 128 plus the number of the signal, as shells report
it.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.engine.driver.topology_change import Changes

_log = logging.getLogger(__name__)
GRACE_SECONDS = 20.0
"""How long the current epoch may take to end. Kubernetes kills a container 30 seconds after SIGTERM, systemd a
service after 90."""
REPEAT_SECONDS = 1.0
"""A signal this soon after the first is the same request: `timeout` signals its command, then the command's group."""
LAST_SECONDS = 5.0
"""How long user code may delay the end of a run that ends at once."""
HEEDED = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Windows has no SIGHUP, and ends a process without a SIGTERM; what it has can be raised inside of the process."""
_EARLY, _AT_ONCE = " before the end of the epoch", " at once"


_DEFAULTS: list[object] = [signal.SIG_DFL]
"""Handlers in whose place a run puts its own."""


def stand_in(handler: Callable[[int, FrameType | None], object]) -> None:
    """Let runs replace a handler of signals as if there were none: it stands in until a run begins."""
    if handler not in _DEFAULTS:
        _DEFAULTS.append(handler)


class StoppedError(SystemExit):
    """A signal has ended the run; the process ends with 128 and the signal's number. What is committed stays.

    A `SystemExit`, so that nothing takes it for a failure of the program's: `except Exception` does not catch it.
    """

    def __init__(self, number: int, line: str) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)
        self.line = line
        """The line that was written to standard error."""

    def __str__(self) -> str:
        return self.line


@contextmanager
def heeding_signals(
    changes: Changes, durable: bool, consequences: tuple[type[HeadraceError], ...] = ()
) -> Iterator[None]:
    """Let signals stop the run inside, if this is the main thread. Signals that the program handles stay with it.

    Args:
        changes: Requests to the driver.
        durable: Whether the run can go on from its checkpoint.
        consequences: Errors of the engine that a signal to other processes of the run can cause.

    Raises:
        StoppedError: A signal has ended the run.
    """
    is_main = threading.current_thread() is threading.main_thread()
    # Any other handler is the program's choice; so is SIGHUP ignored, as by `nohup`.
    handled = [number for number in HEEDED if is_main and _is_free(number)]
    if not handled:
        yield
        return
    watch = _SignalWatch(changes, durable)
    for number in handled:
        signal.signal(number, watch.handle)
    try:
        with watch:
            yield
    except BaseException as error:
        is_own = isinstance(error, HeadraceError) and not isinstance(error, consequences)
        if watch.received is None or is_own or isinstance(error, KeyboardInterrupt):
            raise
        # A signal to all processes of a service ends Spark's Java process too: errors of that are expected.
        _log.info("after %s", watch.received.name, exc_info=error)
        raise _stopped(_line(watch.received, _EARLY, changes, durable), watch.received) from error
    finally:
        for number in handled:
            if signal.getsignal(number) == watch.handle:
                signal.signal(number, signal.SIG_DFL)
    # Also after a signal during the last epoch: its sender wants the process to end.
    if watch.received is not None:
        raise _stopped(_line(watch.received, "", changes, durable), watch.received)


def _stopped(line: str, number: signal.Signals) -> StoppedError:
    sys.stderr.write(line)
    sys.stderr.flush()
    return StoppedError(number, line.rstrip())


def _line(number: signal.Signals, when: str, changes: Changes, durable: bool) -> str:
    return f"stopped by {number.name}{when}: {changes.told(durable)}\n"


def _is_free(number: int) -> bool:
    """Whether nobody handles a signal: neither the program, nor a run in the background that goes on."""
    handler = signal.getsignal(number)
    watch = getattr(handler, "__self__", None)
    return handler in _DEFAULTS or (isinstance(watch, BackgroundWatch) and watch.is_over)


def end_in_time(changes: Changes, wait: Callable[[float], bool]) -> bool:
    """Wait until a run that is to stop has ended; after `GRACE_SECONDS` let its epoch fail. Whether it has ended."""
    if wait(0 if changes.at_once else GRACE_SECONDS):
        return True
    if changes.let_go is not None:
        changes.let_go()
    return wait(LAST_SECONDS)


class _LeaveNow(BaseException):
    """Raised in the main thread by the handler, to end the run at once."""


class _SignalWatch:
    """Handles signals in the main thread; another thread takes care that the run ends in time."""

    def __init__(self, changes: Changes, durable: bool) -> None:
        self.received: signal.Signals | None = None
        self._changes, self._durable = changes, durable
        self._signals: SimpleQueue[int] = SimpleQueue()
        """Numbers of received signals; 0 when the run is over."""
        self._over = False
        self._heeded_again_at = 0.0
        """From when on, by the monotonic clock, a signal is a second one and not the first one's repetition."""
        self._thread = threading.Thread(target=self._end_in_time, name="headrace-signals", daemon=True)
        self._interrupt = _MainThreadInterrupt()

    def __enter__(self) -> None:
        self._thread.start()
        self._interrupt.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over = True
        self._interrupt.end()
        self._signals.put(0)
        self._thread.join(LAST_SECONDS)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler. It does only what is safe in a handler: put into a queue, and raise."""
        self._interrupt.received = True
        first, now = self.received is None, time.monotonic()
        if first:
            self._heeded_again_at = now + REPEAT_SECONDS
        elif now < self._heeded_again_at:
            return
        self.received = signal.Signals(number)
        self._signals.put(number)
        self._changes.stop()
        if not (first or self._over):
            raise _LeaveNow

    def _end_in_time(self) -> None:
        if not (number := self._signals.get()):
            return
        if (number_again := self._next(GRACE_SECONDS)) is None:
            # In the main thread, a system call is interrupted then, and the handler raises.
            self._heeded_again_at = 0.0
            _signal_main_thread(signal.Signals(number))
            number_again = self._next(LAST_SECONDS)
        if number_again and self._changes.let_go is not None:
            # The call may take long as well, or fail because the other process has ended.
            threading.Thread(target=partial(_ignoring_errors, self._changes.let_go), daemon=True).start()
        while number_again:
            number_again = self._next(LAST_SECONDS)
        if number_again is None:
            # The main thread may be inside a write to `sys.stderr`.
            os.write(2, _line(signal.Signals(number), _AT_ONCE, self._changes, self._durable).encode())
            os._exit(128 + number)

    def _next(self, seconds: float) -> int | None:
        try:
            return self._signals.get(timeout=seconds)
        except Empty:
            return None


class BackgroundWatch(_SignalWatch):
    """Handles signals while runs go on in other threads: when these have ended, it ends the main thread.

    There is one for all runs of a time, which the first of them makes.
    """

    @classmethod
    def of(cls, changes: Changes, durable: bool) -> BackgroundWatch | None:
        """What watches over a run that begins; None outside of the main thread, or if the program handles signals."""
        if threading.current_thread() is not threading.main_thread():
            return None
        for handler in map(signal.getsignal, HEEDED):
            watch = getattr(handler, "__self__", None)
            if isinstance(watch, cls) and not watch.is_over:
                watch._runs.append(changes)
                return watch
        numbers = [number for number in HEEDED if _is_free(number)]
        return cls(changes, durable, numbers) if numbers else None

    def __init__(self, changes: Changes, durable: bool, numbers: Sequence[int]) -> None:
        super().__init__(changes, durable)
        self._runs = [changes]
        self._numbers = numbers
        self._has_ended = False
        """Whether the main thread has been ended."""
        self._thread.start()
        for number in numbers:
            signal.signal(number, self.handle)

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended."""
        return self._over

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler. The first signal stops the runs; the next one ends the program at once."""
        if self._has_ended or (self._over and self.received is None):
            if not self._has_ended or time.monotonic() >= self._heeded_again_at:
                self.restore()
                signal.raise_signal(number)
            return
        for changes in self._runs:
            changes.stop()
        try:
            super().handle(number, frame)
        except _LeaveNow:
            for changes in self._runs:
                changes.at_once = True
            raise self._end(_EARLY) from None
        if self._over:
            raise self._end("")

    def _end(self, when: str) -> StoppedError:
        """The error that ends the main thread. The handler stays, as the same signal may come once more."""
        assert self.received is not None, "the caller has looked"
        self._has_ended = True
        self._signals.put(0)
        return _stopped(_line(self.received, when, self._changes, self._durable), self.received)

    def run_over(self, changes: Changes) -> None:
        """Note the end of a run, in its thread; after a signal, the last one ends the main thread."""
        self._runs = [other for other in self._runs if other is not changes]
        if self._runs:
            return
        self._over = True
        if self.received is None:
            self._signals.put(0)
        else:
            _signal_main_thread(self.received)

    def restore(self) -> None:
        """Let the signals have their default meaning again, if all runs have ended; in the main thread only."""
        if self._over and threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                if signal.getsignal(number) == self.handle:
                    signal.signal(number, signal.SIG_DFL)


def _signal_main_thread(number: signal.Signals) -> None:
    """Have the handler of a signal run in the main thread; except on Windows also if that waits in a system call."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(number)


class _MainThreadInterrupt:
    """Interrupts the main thread after a signal, if the thread waits in a system call.

    The system delivers a signal to any thread, but Python's handlers run in the main thread only, once that thread runs
    Python code again. Python writes the number of each signal to a socket; the thread of this class reads it, and sends
    the main thread a signal without other meaning until the handler has run. Windows has no such signals.
    """

    _NUMBER: signal.Signals | None = getattr(signal, "SIGURG", None)
    _AGAIN_SECONDS = 0.1

    def __init__(self) -> None:
        self.received = True
        """Whether the handler has run since the last signal."""
        self._reading, self._writing = socket.socketpair()
        self._thread = threading.Thread(target=self._pass_on, name="headrace-signals-poke", daemon=True)

    def begin(self) -> None:
        """Start to interrupt; call this in the main thread. `end` restores the settings of the program."""
        if self._NUMBER is None:
            return
        self._writing.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        self._handler = signal.signal(self._NUMBER, lambda number, frame: None)
        self._thread.start()

    def end(self) -> None:
        """Stop to interrupt, and restore the settings of the program; call this in the main thread."""
        if self._NUMBER is not None:
            signal.set_wakeup_fd(self._before)
            signal.signal(self._NUMBER, self._handler)
        self._writing.close()
        if self._NUMBER is not None:
            self._thread.join(LAST_SECONDS)
        self._reading.close()

    def _pass_on(self) -> None:
        number = self._NUMBER or signal.SIGTERM
        while numbers := self._reading.recv(1):
            if numbers[0] not in HEEDED:
                continue
            self.received = False
            while not self.received and self._writing.fileno() >= 0:
                time.sleep(self._AGAIN_SECONDS)
                if not self.received:
                    _signal_main_thread(number)


def _ignoring_errors(call: Callable[[], object]) -> None:
    with suppress(Exception):
        call()


class _Forks:
    """Gives processes that user code forks, as by `multiprocessing`, the default handlers of these signals."""

    def __init__(self) -> None:
        self._thread_local = threading.local()

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """Let processes that this thread forks inside, with `preexec_fn`, ignore the signals."""
        self._thread_local.ignores = True
        try:
            yield
        finally:
            self._thread_local.ignores = False

    def prepare(self) -> None:
        """Block the signals before a fork: with the handlers of this process, the new process would lose them."""
        self._thread_local.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)

    def go_on(self) -> None:
        """Unblock the signals in this process."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._thread_local.mask)

    def begin(self) -> None:
        """Set handlers in the new process, and unblock the signals."""
        for number in HEEDED:
            if getattr(self._thread_local, "ignores", False):
                signal.signal(number, signal.SIG_IGN)
            elif (handler := signal.getsignal(number)) in _DEFAULTS or isinstance(
                getattr(handler, "__self__", None), _SignalWatch
            ):
                signal.signal(number, signal.SIG_DFL)
        self.go_on()


FORKS = _Forks()
"""The only instance in a process, because functions that run at a fork cannot be unregistered."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=FORKS.prepare, after_in_parent=FORKS.go_on, after_in_child=FORKS.begin)
