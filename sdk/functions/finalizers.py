"""Bundle finalizers: callbacks of user code that run after the commit of the epoch in which they were registered.

A callback travels to the driver as a row of a sink, so that it is called exactly for what is committed. In the process
of the driver the callback itself is called; from a worker of Spark a pickled copy comes. After a crash the callbacks
of the last epoch may be called again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import ClassVar, cast
from uuid import uuid4

import cloudpickle

from headrace.lowlevel.code_pickling import ShippingError

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
