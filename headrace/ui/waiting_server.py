"""A uvicorn server that waits for requests and for its end, and does not wake up ten times a second to look."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from uvicorn import Config, Server


class WaitingServer(Server):
    """The server of a page. It is loaded when a page is served, as uvicorn may not be installed."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    async def main_loop(self) -> None:
        """Wait for `stop`. uvicorn's own loop also updates the header `date`, which the page has not."""
        self._ended, self._loop = asyncio.Event(), asyncio.get_running_loop()
        if not self.should_exit:
            await self._ended.wait()

    def stop(self) -> None:
        """End the server; another thread calls this."""
        self.should_exit = True
        if self._loop is not None and self._ended is not None:
            # It may have ended already.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)
