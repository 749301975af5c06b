"""What: calls of a function for many elements at once, in an event loop that the process keeps beside its work.

A call has a time limit, further attempts after growing pauses, a rate, and a cache. Coroutine functions run in the
loop, ordinary functions in threads of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, cast

Called = Callable[[Any], Any]
_MOST_CACHED = 100_000
"""Results in a cache."""
_LONGEST_PAUSE = 60.0
"""Seconds between two attempts at a call."""


@dataclass(frozen=True, slots=True)
class CallRules:
    """How a function is called."""

    concurrency: int
    """Number of calls at once."""
    timeout: float | None = None
    """Seconds that one attempt may take."""
    retries: int = 0
    """Number of further attempts."""
    backoff: float = 1.0
    """Seconds before the second attempt; twice as long before each further one, up to a minute, each up to a half less
    by chance."""
    retry_on: type[Exception] | tuple[type[Exception], ...] = Exception
    """The exceptions after which there is a further attempt."""
    rate: float | None = None
    """Greatest number of attempts a second in this process."""
    cache_seconds: float | None = None
    """For how long a result is given again for an equal argument; None to call each time."""

    def pause(self, attempt: int) -> float:
        """Seconds before another attempt, behind that many failed ones."""
        longest: float = min(self.backoff * 2 ** (attempt - 1), _LONGEST_PAUSE)
        return longest * random.uniform(0.5, 1)


class AsyncCalls:
    """Calls of one function in this process; `close` ends its threads.

    Args:
        function: A function or coroutine function of one argument.
        rules: How it is called.
    """

    def __init__(self, function: Called, rules: CallRules) -> None:
        self._function, self._rules = function, rules
        self._loop = asyncio.new_event_loop()
        self._threads = None if _is_coroutine(function) else ThreadPoolExecutor(rules.concurrency, "headrace-calls")
        self._places = asyncio.Semaphore(rules.concurrency)
        self._next_start = 0.0
        self._cache: OrderedDict[Hashable, tuple[float, Future[object]]] = OrderedDict()
        self._thread = Thread(target=self._loop.run_forever, name="headrace-loop", daemon=True)
        self._thread.start()

    def submit(self, argument: object) -> Future[object]:
        """Begin a call, unless an equal argument has a result in the cache, or is being called."""
        life = self._rules.cache_seconds
        if life is None:
            return self._begin(argument)
        known = self._cache.get(argument)
        if known is not None and time.monotonic() < known[0] and not _has_failed(known[1]):
            return known[1]
        future = self._begin(argument)
        self._cache[argument] = time.monotonic() + life, future
        self._cache.move_to_end(argument)
        while len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return future

    def close(self) -> None:
        """End the loop and the threads; calls that are under way are given up."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _begin(self, argument: object) -> Future[object]:
        return asyncio.run_coroutine_threadsafe(self._attempts(argument), self._loop)

    async def _attempts(self, argument: object) -> object:
        failed = 0
        while True:
            async with self._places:
                await self._turn()
                try:
                    return await asyncio.wait_for(self._attempt(argument), self._rules.timeout)
                except self._rules.retry_on as error:
                    failed += 1
                    if failed > self._rules.retries:
                        if isinstance(error, TimeoutError) and not error.args:
                            raise TimeoutError(f"the call took more than {self._rules.timeout:g} s") from None
                        raise
            await asyncio.sleep(self._rules.pause(failed))

    def _attempt(self, argument: object) -> Awaitable[object]:
        if self._threads is None:
            return cast("Coroutine[object, object, object]", self._function(argument))
        return self._loop.run_in_executor(self._threads, self._function, argument)

    async def _turn(self) -> None:
        """Wait until the rate allows another attempt."""
        if self._rules.rate is None:
            return
        now = time.monotonic()
        start = self._next_start = max(now, self._next_start)
        self._next_start += 1 / self._rules.rate
        await asyncio.sleep(start - now)


def _is_coroutine(function: Called) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _has_failed(future: Future[object]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)
