"""What: the life cycle of user functions: setup, start_bundle, finish_bundle, teardown (as of Beam's `DoFn`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Protocol, TypeVar, cast

from headrace.lowlevel.metric import at
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


def set_up(parts: Iterable[tuple[str, HasLifecycle]]) -> ExitStack:
    """Set up functions, each given with the label of its step; returns a stack that tears them down in reverse order.

    If a `setup` raises, the functions set up before it are torn down, and the error is raised.
    """
    with ExitStack() as ending:
        for label, part in parts:
            call_hook(label, part.setup)
            ending.callback(call_hook, label, part.teardown, "what is committed stays")
        return ending.pop_all()


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
