"""Chromium without a screen, driven over its own protocol (DevTools) on two pipes, without another package."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import signal
import subprocess
from itertools import count
from pathlib import Path
from typing import Any, Self

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser that there is; `./dev test` installs Debian's."""
_FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --remote-debugging-pipe"
_KEYS = {" ": ("Space", 32), "ArrowLeft": ("ArrowLeft", 37), "ArrowRight": ("ArrowRight", 39)}
_KEYS |= {"Home": ("Home", 36), "End": ("End", 35), "Tab": ("Tab", 9)}


class Browser:
    """One page in one browser; a context manager. The page is a file, or an address."""

    def __init__(self, profile: Path, page: Path | str, size: tuple[int, int] = (1000, 860)) -> None:
        assert PROGRAM is not None, "no Chromium"
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        flags = f"{_FLAGS} --window-size={size[0]},{size[1]} --user-data-dir={shlex.quote(str(profile))}"
        self._process = subprocess.Popen(
            # It reads from 3 and writes to 4. (sh knows descriptors up to 9 only.)
            ["bash", "-c", f"exec {shlex.quote(PROGRAM)} {flags} about:blank 3<&{theirs_in} 4>&{theirs_out}"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", buffering=0), os.fdopen(ours_in, "rb")
        self._numbers = count(1)
        self._rest = b""
        self._session: str | None = None
        self.problems: list[str] = []
        """Errors of scripts, and what the browser has refused or not found, so far."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.go(page.as_uri() if isinstance(page, Path) else page)

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.run("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def call(self, method: str, **arguments: object) -> Any:
        """Call a method of the protocol; its result. Raises `RuntimeError` with what the browser says."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": arguments}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.problems.append(event["params"]["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            details = event["params"]["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("the browser has gone")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def run(self, script: str) -> Any:
        """The value of an expression on the page, or of what it promises."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description"))
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, as a person does."""
        code, number = _KEYS[key]
        text = {"text": key} if key == " " else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number, **text)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag with the mouse."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def show_at(self, width: int, height: int = 900, dark: bool = False, calm: bool = False) -> None:
        """Show the page as on a screen of that size, in pixels, for a person who wants it dark, or without motion."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"},
        ]
        self.call("Emulation.setEmulatedMedia", media="screen", features=features)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """What is to be seen, as PNG; if asked for, the whole page as far as it can be scrolled down."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._area(whole))
        path.write_bytes(base64.b64decode(picture["data"]))

    def _area(self, whole: bool) -> dict[str, object]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._out.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._in.close()
