"""How a run ends when its process is told to: SIGTERM (Kubernetes, systemd, `kill`) and SIGHUP (a closed terminal).

The first signal lets the epoch that is running end and commit. If it takes longer than `GRACE_SECONDS`, or at a second
signal, the run is left at once, as with Ctrl-C; what is committed stays. Where even that takes longer than
`LAST_SECONDS`, as user code does not let go, the process ends there. The exit code is 128 and the signal's number, as
shells report it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.engine.running import Changes

_log = logging.getLogger(__name__)
GRACE_SECONDS = 20.0
"""How long the epoch that is running may take to end. Kubernetes kills a container 30 seconds after SIGTERM, systemd a
service after 90."""
LAST_SECONDS = 5.0
"""How long user code may take to let go of a run that is left at once."""
HEEDED = (signal.SIGTERM, signal.SIGHUP)
_EARLY, _AT_ONCE = " before the end of the epoch", " at once"


class StoppedError(SystemExit):
    """A signal has ended the run; the process ends with 128 and the signal's number. What is committed stays.

    A `SystemExit`, so that nothing takes it for a failure of the program's: `except Exception` does not catch it.
    """

    def __init__(self, number: int, told: str) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)
        self.told = told
        """The line that was written to standard error."""

    def __str__(self) -> str:
        return self.told


@contextmanager
def heeding_signals(
    changes: Changes, durable: bool, brought_about: tuple[type[HeadraceError], ...] = ()
) -> Iterator[None]:
    """Let signals stop the run inside, if this is the main thread. A signal that the program handles is left to it.

    Args:
        changes: What the driver is asked through.
        durable: Whether the run can go on from its checkpoint.
        brought_about: Errors of the engine that a signal to other processes of the run can bring about.

    Raises:
        StoppedError: A signal came.
    """
    is_main = threading.current_thread() is threading.main_thread()
    # Whatever is not the default is the program's own choice, as is a SIGHUP that `nohup` has it ignore.
    taken = [number for number in HEEDED if is_main and signal.getsignal(number) is signal.SIG_DFL]
    if not taken:
        yield
        return
    ears = _Ears(changes, durable)
    for number in taken:
        signal.signal(number, ears.hear)
    try:
        with ears:
            yield
    except BaseException as error:
        own = isinstance(error, HeadraceError) and not isinstance(error, brought_about)
        if ears.heard is None or own or isinstance(error, KeyboardInterrupt):
            raise
        # A signal to all processes of a service ends Spark's Java process too: what comes of that is no news.
        _log.info("after %s", ears.heard.name, exc_info=error)
        raise _stopped(_line(ears.heard, _EARLY, changes, durable), ears.heard) from error
    finally:
        for number in taken:
            if signal.getsignal(number) == ears.hear:
                signal.signal(number, signal.SIG_DFL)
    # Also one that came when the last epoch had begun: whoever sent it wants the process to end.
    if ears.heard is not None:
        raise _stopped(_line(ears.heard, "", changes, durable), ears.heard)


def _stopped(told: str, number: signal.Signals) -> StoppedError:
    sys.stderr.write(told)
    sys.stderr.flush()
    return StoppedError(number, told.rstrip())


def _line(number: signal.Signals, when: str, changes: Changes, durable: bool) -> str:
    if changes.finished:
        standing = "the input has ended, and nothing is left to do"
    elif not durable:
        standing = "without a checkpoint nothing of the run is kept"
    elif changes.committed is None:
        standing = "nothing is committed by this run; start it again to go on"
    else:
        standing = f"epoch {changes.committed:,} is committed; start it again to go on from there"
    return f"stopped by {number.name}{when}: {standing}\n"


class _LeaveNow(BaseException):
    """Takes the main thread out of whatever it does."""


class _Ears:
    """Hears signals in the main thread; a thread of its own sees to it that the run ends in time."""

    def __init__(self, changes: Changes, durable: bool) -> None:
        self.heard: signal.Signals | None = None
        self._changes, self._durable = changes, durable
        self._signals: SimpleQueue[int] = SimpleQueue()
        """Numbers of signals as they come, and 0 when the run is over."""
        self._over = False
        self._watch = threading.Thread(target=self._see_to_it, name="headrace-signals", daemon=True)
        self._poke = _Poke()

    def __enter__(self) -> None:
        self._watch.start()
        self._poke.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over = True
        self._poke.end()
        self._signals.put(0)
        self._watch.join(LAST_SECONDS)

    def hear(self, number: int, frame: FrameType | None) -> None:
        """The handler. It does only what is safe in one: to put into a queue, and to raise."""
        first, self.heard = self.heard is None, signal.Signals(number)
        self._poke.heard = True
        self._signals.put(number)
        self._changes.stop()
        if not (first or self._over):
            raise _LeaveNow

    def _see_to_it(self) -> None:
        if not (number := self._signals.get()):
            return
        if (came := self._next(GRACE_SECONDS)) is None:
            # To the main thread: a system call that it waits in ends then, and the handler raises.
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            came = self._next(LAST_SECONDS)
        if came and self._changes.let_go is not None:
            # It may take long as well, or fail as what it speaks to has gone.
            threading.Thread(target=partial(_quietly, self._changes.let_go), daemon=True).start()
        while came:
            came = self._next(LAST_SECONDS)
        if came is None:
            # The main thread may be inside a write to `sys.stderr`.
            os.write(2, _line(signal.Signals(number), _AT_ONCE, self._changes, self._durable).encode())
            os._exit(128 + number)

    def _next(self, seconds: float) -> int | None:
        try:
            return self._signals.get(timeout=seconds)
        except Empty:
            return None


class _Poke:
    """Has the main thread notice a signal that came while it waits in a system call.

    The system hands a signal to any thread, and Python's handlers run in the main thread only, once it is back in
    Python. A thread of this one is told of each signal by the system's own handler, and interrupts the main thread with
    a signal that means nothing else, until the handler has run.
    """

    _NUMBER = signal.SIGURG
    _AGAIN_SECONDS = 0.1

    def __init__(self) -> None:
        self.heard = True
        """Whether the handler has run since the last signal."""
        self._reading, self._writing = socket.socketpair()
        self._thread = threading.Thread(target=self._pass_on, name="headrace-signals-poke", daemon=True)

    def begin(self) -> None:
        """In the main thread; what the program itself uses for this is put back in the end."""
        self._writing.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        self._handler = signal.signal(self._NUMBER, lambda number, frame: None)
        self._thread.start()

    def end(self) -> None:
        """In the main thread."""
        signal.set_wakeup_fd(self._before)
        signal.signal(self._NUMBER, self._handler)
        self._writing.close()
        self._thread.join(LAST_SECONDS)
        self._reading.close()

    def _pass_on(self) -> None:
        main = threading.main_thread().ident or 0
        while numbers := self._reading.recv(1):
            if numbers[0] not in HEEDED:
                continue
            self.heard = False
            while not self.heard and self._writing.fileno() >= 0:
                time.sleep(self._AGAIN_SECONDS)
                if not self.heard:
                    signal.pthread_kill(main, self._NUMBER)


def _quietly(call: Callable[[], object]) -> None:
    with suppress(Exception):
        call()


class _Forks:
    """Processes that user code forks, as `multiprocessing` does, die of these signals as ever."""

    def __init__(self) -> None:
        self._here = threading.local()

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """Let processes that this thread starts inside, with a function to call before, ignore the signals."""
        self._here.ignores = True
        try:
            yield
        finally:
            self._here.ignores = False

    def prepare(self) -> None:
        """No signal reaches the new process as long as it has this one's handlers: Python would forget it there."""
        self._here.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)

    def go_on(self) -> None:
        """In this process."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._here.mask)

    def begin(self) -> None:
        """In the new process."""
        for number in HEEDED:
            if getattr(self._here, "ignores", False):
                signal.signal(number, signal.SIG_IGN)
            elif isinstance(getattr(signal.getsignal(number), "__self__", None), _Ears):
                signal.signal(number, signal.SIG_DFL)
        self.go_on()


FORKS = _Forks()
"""Of this process."""
os.register_at_fork(before=FORKS.prepare, after_in_parent=FORKS.go_on, after_in_child=FORKS.begin)
