"""Whether a program is loaded by somebody who needs its functions and steps, and will run its pipelines or will not.

`headrace run`, `draw` and `explain` load a program to find its pipeline; a worker of Spark imports the modules that
functions are from. A `with` block of a pipeline at the top of such a module must not run the pipeline then. The file
is small, as the driver's pipeline and the worker's unpickling share only this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_waiting: ContextVar[list[object] | None] = ContextVar("pipelines of with blocks that have not run", default=None)


@contextmanager
def loading_program() -> Iterator[list[object]]:
    """Have the ends of `with` blocks run nothing; yields a list, to which each such block adds its pipeline.

    >>> with loading_program() as pipelines:
    ...     left_to_loader("a pipeline")
    True
    >>> pipelines, left_to_loader("another")
    (['a pipeline'], False)
    """
    pipelines: list[object] = []
    token = _waiting.set(pipelines)
    try:
        yield pipelines
    finally:
        _waiting.reset(token)


def left_to_loader(pipeline: object) -> bool:
    """Whether a program is being loaded, so that the pipeline is not to be run; its loader gets the pipeline."""
    waiting = _waiting.get()
    if waiting is not None:
        waiting.append(pipeline)
    return waiting is not None
