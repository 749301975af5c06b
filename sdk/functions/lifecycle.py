"""What: the calls that frame a `DoFn`'s elements, from set-up to tear-down (the life cycle of Beam's `DoFn`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Protocol, TypeVar, cast

from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.metric import at
from headrace.sdk.pvalue import TaggedOutput
from headrace.sdk.windowedvalue import WindowedValue

T = TypeVar("T")


class HasStartBundle(Protocol):
    """A `DoFn`, as far as the beginning of a bundle goes."""

    def start_bundle(self) -> object:
        """See `DoFn`."""


def call_hook(label: str, hook: Callable[[], T]) -> T:
    """Call a function's life-cycle hook; what it raises is the step's failure."""
    try:
        with at(label):
            return hook()
    except Exception as error:
        raise failed_step(error, label, None, None) from error


def start_bundle(label: str, fn: HasStartBundle) -> None:
    """Begin a bundle. A `start_bundle` that returns anything is refused, as nothing would come of it."""
    outputs = call_hook(label, fn.start_bundle)
    if outputs is not None:
        error = RuntimeError(
            f"start_bundle returned {outputs!r:.200}, but there is no element yet whose output that could be; put out "
            "elements in process or finish_bundle"
        )
        raise failed_step(error, label, None, None)


class Living(Protocol):
    """A `DoFn` or a `CombineFn`."""

    def setup(self) -> None:
        """Called once, before anything else."""

    def teardown(self) -> None:
        """Called once, after everything else."""


def set_up(parts: Iterable[tuple[str, Living]]) -> ExitStack:
    """Set functions up, given with their steps' labels; returns what tears all of them down, the last one first.

    If one fails, those before it are torn down, and its error is raised.
    """
    with ExitStack() as ending:
        for label, part in parts:
            call_hook(label, part.setup)
            ending.callback(call_hook, label, part.teardown)
        return ending.pop_all()


def last_outputs(outputs: object) -> Iterator[tuple[str | None, WindowedValue]]:
    """What `finish_bundle` put out: tags and values, which must say when and in which windows they are."""
    for output in cast(Iterable[object], outputs):
        tag, value = (output.tag, output.value) if isinstance(output, TaggedOutput) else (None, output)
        if not isinstance(value, WindowedValue):
            raise TypeError(
                f"finish_bundle put out {value!r:.200}, which has no timestamp and no window; "
                "put out WindowedValue(value, timestamp, [window])"
            )
        yield tag, value
