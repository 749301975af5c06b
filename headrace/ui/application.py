"""The ASGI application of the page: its files, one JSON document with everything, and answers to questions.

It keeps the latest snapshot of each pipeline as text, so that a store that does not answer keeps no other pipeline
waiting.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from importlib.resources import files
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage.places import hidden
from headrace.sdk.recording.recording import RecordingError
from headrace.sdk.recording.stored_cells import UnknownStepError
from headrace.ui.access import HEADERS, NO_TOKEN, Access, Refusal
from headrace.ui.checkpoint_reader import CheckpointReader
from headrace.ui.pipelines import NothingStoredError, Pipeline
from headrace.ui.snapshot import Phase, PipelineSnapshot, Status
from headrace.ui.stored_state import (
    entries_of_id,
    entries_of_key,
    largest_keys,
    panes_page,
    recorded_steps,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NO_CHECKPOINT = "Only a checkpoint tells this: run the pipeline with --checkpoint=PLACE."
_PICTURE_POLICY = (
    "default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_PICTURE_ERROR_HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
}
"""The page reads the message out of the frame of the picture."""
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class Application:
    """Answers the requests of a page about some pipelines.

    Args:
        pipelines: The pipelines, in the order in which they are shown.
        access: Who may read.
        port: The port, which is part of the cookie's name.
    """

    def __init__(self, pipelines: Sequence[Pipeline], access: Access, port: int) -> None:
        self._pipelines, self._access, self._port = pipelines, access, port
        self._latest = [LatestSnapshot(partial(_snapshot, each), as_json(_unread_snapshot(each))) for each in pipelines]
        self._identity = secrets.token_hex(8)
        folder = files("headrace.ui") / "page"
        self._looked = Event()
        self._looked_at = float("-inf")
        self._files = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}

    def asgi(self) -> ASGIApp:
        """The application, behind the rules of `Access`."""
        return _Guarded(self._application(), self._access, self._port)

    def show_end(self, moment: float) -> None:
        """Wait until a page that asked lately has asked again, at most so many seconds."""
        if time.monotonic() - self._looked_at < 2 * moment:
            self._looked.clear()
            if self._looked.wait(moment):
                # The answer is on its way.
                time.sleep(moment / 20)

    def close(self) -> None:
        """Let the threads that make snapshots end."""
        for latest in self._latest:
            latest.close()

    def _application(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes = [
            Route("/", self._index),
            Route("/live.json", self._live),
            Route("/{name:str}", self._file),
            Route("/pipelines/{number:str}/graph.json", self._answer(self._graph)),
            Route("/pipelines/{number:str}/keys.json", self._answer(self._keys)),
            Route("/pipelines/{number:str}/recorded.json", self._answer(self._recorded_steps)),
            Route("/pipelines/{number:str}/panes.html", self._answer(self._panes, _PICTURE_ERROR_HEADERS)),
        ]
        application = Starlette(routes=routes)
        application.router.redirect_slashes = False
        return application

    def _index(self, request: Request) -> Response:
        return self._file_response("index.html")

    def _file(self, request: Request) -> Response:
        return self._file_response(request.path_params["name"])

    def _file_response(self, name: str) -> Response:
        from starlette.responses import PlainTextResponse, Response

        if (contents := self._files.get(name)) is None:
            return PlainTextResponse("There is nothing here; the page is at /.", 404)
        return Response(contents, media_type=_TYPES[name[name.rindex(".") :]])

    def _live(self, request: Request) -> Response:
        """The snapshots of all pipelines; those that the reader has already, by their version, are only named.

        A reader that finds another server begins anew; ages are told by the clock of this machine.
        """
        known = request.query_params.get("known", "").split(",")
        answers = []
        for number, latest in enumerate(self._latest):
            version, text = latest.current()
            is_known = number < len(known) and known[number] == version
            answers.append(f'{{"version":"{version}","snapshot":{"null" if is_known else text}}}')
        self._looked_at = time.monotonic()
        self._looked.set()
        return _json_text(
            f'{{"server":"{self._identity}","clock":{time.time():.3f},"pipelines":[{",".join(answers)}]}}'
        )

    def _answer(
        self, answer: Callable[[Pipeline, Mapping[str, str]], Response], of_errors: Mapping[str, str] | None = None
    ) -> Callable[[Request], Response]:
        """Answer a question about one pipeline; errors that a reader can do something about become 404 or 503."""

        def respond(request: Request) -> Response:
            pipeline = {str(number): its for number, its in enumerate(self._pipelines)}.get(
                request.path_params["number"]
            )
            if pipeline is None:
                return _error(404, f"There is no such pipeline; there are {len(self._pipelines)}, from 0 on.")
            try:
                return answer(pipeline, request.query_params)
            except (NothingStoredError, UnknownStepError, RecordingError) as error:
                return _error(404, str(error), of_errors)
            except (CheckpointError, OSError) as error:
                return _error(503, str(error), of_errors)

        return respond

    def _graph(self, pipeline: Pipeline, query: Mapping[str, str]) -> Response:
        return _json_text(as_json(pipeline.graph()))

    def _keys(self, pipeline: Pipeline, query: Mapping[str, str]) -> Response:
        view, step = _reader(pipeline).open(), query.get("step", "")
        if (name := query.get("id")) is not None:
            entries = entries_of_id(view, step, name)
        elif (key := query.get("key")) is not None:
            entries = entries_of_key(view, step, key)
        else:
            return _json_text(as_json(largest_keys(view, step)))
        return _json_text(as_json({"epoch": view.manifest and view.manifest.epoch, "entries": entries}))

    def _recorded_steps(self, pipeline: Pipeline, query: Mapping[str, str]) -> Response:
        reader = _reader(pipeline)
        return _json_text(as_json(recorded_steps(reader.place, reader.key)))

    def _panes(self, pipeline: Pipeline, query: Mapping[str, str]) -> Response:
        """The picture of a run, whose own script alone may run."""
        from starlette.responses import HTMLResponse

        reader = _reader(pipeline)
        text = panes_page(reader.place, query.get("step"), query.get("key") or None, reader.key)
        hashes = (hashlib.sha256(script.encode()).digest() for script in _SCRIPT.findall(text))
        allowed = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes)
        policy = _PICTURE_POLICY.format(hashes=allowed or "'none'")
        return HTMLResponse(text, headers={"content-security-policy": policy})


def _unread_snapshot(pipeline: Pipeline) -> PipelineSnapshot:
    """What is shown of a pipeline until its first snapshot is made."""
    place = "" if pipeline.reader is None else hidden(pipeline.reader.place)
    return PipelineSnapshot(pipeline.title, place, False, Status(Phase.UNREAD, "The checkpoint is being read."))


def _snapshot(pipeline: Pipeline) -> str:
    try:
        return as_json(pipeline.snapshot())
    except Exception as error:
        # The page is all that fails: other pipelines are shown, and the run goes on.
        told = f"This page has failed with {type(error).__name__}: {hidden(str(error))}"
        return as_json(replace(_unread_snapshot(pipeline), status=Status(Phase.UNREADABLE, told)))


def as_json(value: object) -> str:
    """The text of dataclasses with slots, and of what JSON knows. `dataclasses.asdict` copies each list beforehand.

    >>> from headrace.ui.snapshot import ChartedTime
    >>> as_json([ChartedTime("now", 1.5)])
    '[{"text":"now","seconds":1.5}]'
    """
    return json.dumps(value, default=_fields, separators=(",", ":"), check_circular=False)


def _fields(value: object) -> dict[str, object]:
    dataclass: Any = value
    return {each.name: getattr(value, each.name) for each in fields(dataclass)}


def _reader(pipeline: Pipeline) -> CheckpointReader:
    if pipeline.reader is None:
        raise NothingStoredError(_NO_CHECKPOINT)
    return pipeline.reader


def _json_text(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    from starlette.responses import Response

    return Response(text, status, headers, "application/json")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return _json_text(json.dumps({"error": message}), status, headers)


class _Guarded:
    """Refuses what `Access` refuses, takes the token out of the address, and adds the headers of every answer."""

    def __init__(self, application: ASGIApp, access: Access, port: int) -> None:
        self._application, self._access, self._port = application, access, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self._application_for(scope)(scope, receive, _with_headers(send))

    def _application_for(self, scope: Scope) -> ASGIApp:
        from starlette.requests import Request
        from starlette.responses import RedirectResponse

        request = Request(scope)
        told = (request.headers.get(name, "") for name in ("host", "sec-fetch-site", "sec-fetch-mode"))
        if (refusal := self._access.refusal(request.method, *told)) is not None:
            return _refusal_response(refusal)
        given = request.query_params.get("token")
        if request.url.path == "/" and given is not None and self._access.token is not None:
            if not self._access.knows_token(given):
                return _refusal_response(NO_TOKEN)
            response = RedirectResponse("/", 303)
            name = self._access.cookie_name(self._port)
            # "lax": the first request may come from a link, in a mail for instance.
            response.set_cookie(name, given, httponly=True, samesite="lax")
            return response
        if not self._access.is_let_in(request.headers.get("cookie", ""), self._port):
            return _refusal_response(NO_TOKEN)
        return self._application


def _refusal_response(refusal: Refusal) -> Response:
    from starlette.responses import PlainTextResponse

    headers = {"allow": "GET, HEAD"} if refusal.status == 405 else {}
    return PlainTextResponse(f"{refusal.reason}\n", refusal.status, headers)


def _with_headers(send: Send) -> Send:
    """Add the headers that an answer does not have itself."""
    from starlette.datastructures import MutableHeaders

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


PATIENCE = 1.0
"""Seconds that an answer waits for a snapshot; after that it has the one before it."""


class VersionedText(NamedTuple):
    """A snapshot as text, and a name that tells it from other ones."""

    version: str
    text: str

    @classmethod
    def of(cls, text: str) -> VersionedText:
        """The text with its version."""
        return cls(hashlib.sha256(text.encode()).hexdigest()[:16], text)


class LatestSnapshot:
    """Makes snapshots when they are asked for, in a thread of its own, which ends with the process.

    Args:
        make: Makes the text of a snapshot.
        first: The text before the first snapshot.

    >>> latest = LatestSnapshot(lambda: "new", "old")
    >>> latest.current().text
    'new'
    >>> latest.close()
    """

    def __init__(self, make: Callable[[], str], first: str) -> None:
        self._make = make
        self._current = VersionedText.of(first)
        self._asked = SimpleQueue[bool]()
        self._made = Event()
        self._made.set()
        self._due = 0.0
        self._lock = Lock()
        self._thread: Thread | None = None

    def current(self) -> VersionedText:
        """The snapshot of now; the one before it if that takes longer than `PATIENCE`."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._answer, name="headrace page reader", daemon=True)
                self._thread.start()
            if self._made.is_set():
                self._made.clear()
                self._due = time.monotonic() + PATIENCE
                self._asked.put(True)
        self._made.wait(max(0.0, self._due - time.monotonic()))
        return self._current

    def close(self) -> None:
        """Let the thread end."""
        self._asked.put(False)

    def _answer(self) -> None:
        while self._asked.get():
            try:
                self._current = VersionedText.of(self._make())
            finally:
                self._made.set()
