"""What: the life cycle of user functions: setup, start_bundle, finish_bundle, teardown (as of Beam's `DoFn`).

Bundle finalizers are callbacks that run after the commit of the epoch in which they were registered. A callback travels
to the driver as a row of a sink, so that it is called exactly for what is committed. In the process of the driver the
callback itself is called; from a worker of Spark a pickled copy comes. After a crash the callbacks of the last epoch
may be called again.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from typing import ClassVar, Generic, Protocol, TypeVar, cast
from uuid import uuid4

import cloudpickle

from headrace.lowlevel.code_pickling import ShippingError, shipped
from headrace.lowlevel.metric import at
from headrace.lowlevel.records.record import Emit
from headrace.lowlevel.user_errors import failed_step
from headrace.sdk.model.special_outputs import TaggedOutput, WindowedValue

T = TypeVar("T")


class HasStartBundle(Protocol):
    """A function with `start_bundle`, such as a `DoFn`."""

    def start_bundle(self) -> object:
        """See `DoFn`."""


def call_hook(label: str, hook: Callable[[], T], outcome: str | None = None) -> T:
    """Call a life-cycle method. An exception becomes a `StepError` of the step with this label; see its `outcome`."""
    try:
        with at(label):
            return hook()
    except Exception as error:
        failed = failed_step(error, label, None, None)
        failed.outcome = outcome or failed.outcome
        raise failed from error


def start_bundle(label: str, fn: HasStartBundle) -> None:
    """Begin a bundle. Raises `StepError` if `start_bundle` returns anything, as outputs of it would be lost."""
    outputs = call_hook(label, fn.start_bundle)
    if outputs is not None:
        error = RuntimeError(
            f"start_bundle returned {outputs!r:.200}, but there is no element yet whose output that could be; put out "
            "elements in process or finish_bundle"
        )
        raise failed_step(error, label, None, None)


class HasLifecycle(Protocol):
    """A function with `setup` and `teardown`: a `DoFn` or a `CombineFn`."""

    def setup(self) -> None:
        """Called once, before anything else."""

    def teardown(self) -> None:
        """Called once, after everything else."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything."""


def set_up(parts: Iterable[tuple[str, HasLifecycle]]) -> ExitStack:
    """Set up functions, each given with the label of its step; returns a stack that tears them down in reverse order.

    If a `setup` raises, the functions set up before it are torn down, and the error is raised.
    """
    with ExitStack() as ending:
        for label, part in parts:
            call_hook(label, part.setup)
            ending.callback(call_hook, label, part.teardown, "what is committed stays")
        return ending.pop_all()


class LiveFunctions(Protocol):
    """The functions of a computation in one process."""

    def start_bundle(self) -> None:
        """Start a bundle in every function."""

    def finish_bundle(self, emit: Emit) -> None:
        """Finish the bundle of every function, and send what they put out."""


PlanT = TypeVar("PlanT")
LiveT = TypeVar("LiveT", bound=LiveFunctions)


class RunsPlan(ABC, Generic[PlanT, LiveT]):
    """Mixin of computations that run the functions of a plan.

    Args:
        name: The step or stage, for errors.
        plan: The functions; only this is shipped. Copies of them are set up, so that they stay as they were written.
    """

    _live: LiveT | None = None
    _ending: ExitStack | None = None

    def __init__(self, name: str, plan: PlanT) -> None:
        self.name, self.plan = name, plan

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_live": None, "_ending": None}

    @abstractmethod
    def make_live(self, plan: PlanT) -> LiveT:
        """The functions of a copy of the plan."""

    @abstractmethod
    def functions(self, plan: PlanT) -> Iterable[tuple[str, HasLifecycle]]:
        """The functions to set up and tear down, each with the label of its step."""

    @property
    def live(self) -> LiveT:
        """The copies of the functions in this process."""
        assert self._live is not None, "setup() comes first"
        return self._live

    def setup(self) -> None:
        """Set up copies of the functions."""
        plan = shipped(self.plan, self.name)
        self._live = self.make_live(plan)
        self._ending = set_up(self.functions(plan))

    def teardown(self) -> None:
        """Tear down all functions, even if some teardowns fail, and drop the copies."""
        self._live, ending, self._ending = None, self._ending, None
        if ending is not None:
            ending.close()

    def has_teardown(self) -> bool:
        """Whether one of the functions defines a teardown."""
        return any(function.has_teardown() for _, function in self.functions(self.plan))

    def start_bundle(self) -> None:
        """Start a bundle in every function."""
        self.live.start_bundle()

    def finish_bundle(self, emit: Emit) -> None:
        """Finish the bundle of every function, and send what they put out."""
        self.live.finish_bundle(emit)


def last_outputs(outputs: object) -> Iterator[tuple[str | None, WindowedValue]]:
    """Tags and values of the outputs of `finish_bundle`, which must be `WindowedValue`s."""
    for output in cast(Iterable[object], outputs):
        tag, value = (output.tag, output.value) if isinstance(output, TaggedOutput) else (None, output)
        if not isinstance(value, WindowedValue):
            raise TypeError(
                f"finish_bundle put out {value!r:.200}, which has no timestamp and no window; "
                "put out WindowedValue(value, timestamp, [window])"
            )
        yield tag, value


Callback = Callable[[], object]
TAG = "beam:finalizers"
"""Tag of the output with the callbacks."""
_log = logging.getLogger(__name__)
_numbers = count()
_PROCESS = uuid4().hex
"""Tells the process of the driver from those of workers."""


class BundleFinalizer:
    """Takes callbacks that are called once the bundle is committed; what a `DoFn.BundleFinalizerParam` gets."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []

    def register(self, callback: Callback) -> None:
        """Have a function without parameters called on the driver, after the commit of the epoch."""
        if not callable(callback):
            raise TypeError(f"a bundle finalizer takes a function without parameters, got {callback!r:.200}; give one")
        self.callbacks.append(callback)


class Finalizers:
    """Makes rows of the callbacks of a step.

    Args:
        step: Name of the step, for messages.
    """

    def __init__(self, step: str) -> None:
        self._step, self._driver = step, _PROCESS

    def row(self, callback: Callback) -> _LocalCallback | bytes:
        """The row for a callback. Raises ShippingError if it has to be sent and cannot be pickled."""
        if self._driver == _PROCESS:
            return _LocalCallback(callback)
        try:
            data: bytes = cloudpickle.dumps(callback)
        except Exception as error:
            raise ShippingError(
                f"step {self._step!r} registered a bundle finalizer that cannot be sent to the driver, where it runs "
                f"after the commit ({type(error).__name__}: {error}); open in the callback what it needs"
            ) from error
        return data


class _LocalCallback:
    """A callback that stays in this process; it is pickled as its number."""

    _waiting: ClassVar[dict[int, Callback]] = {}

    def __init__(self, callback: Callback) -> None:
        self._number = next(_numbers)
        self._waiting[self._number] = callback

    def __call__(self) -> None:
        """Call it, once; nothing is called that a process before this one has registered."""
        if (callback := self._waiting.pop(self._number, None)) is not None:
            callback()


def finalize(epoch: int, rows: Sequence[tuple[object, int]]) -> None:
    """Call the callbacks of a committed epoch. One that fails is logged, as in Beam, and the others are called."""
    for row, _ in rows:
        try:
            callback = cloudpickle.loads(row) if isinstance(row, bytes) else row
            cast(Callback, callback)()
        except Exception:
            _log.warning("a bundle finalizer of epoch %d failed", epoch, exc_info=True)
