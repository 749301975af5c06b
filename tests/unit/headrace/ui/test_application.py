"""The page over real HTTP: what it serves, whom it serves, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headrace.runners.reporting.reporter import PortError
from headrace.ui.access import Access
from headrace.ui.application import Application
from headrace.ui.pipelines import RunningPipeline, StoredPipeline
from headrace.ui.server import PageServer
from tests.pageruns import Answer, asked, finished, news, stopped


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A page about a run that has ended and was recorded, one that failed, and one without a checkpoint."""
    folder = tmp_path_factory.mktemp("served")
    places = [finished(folder / "ended", record=True), stopped(folder / "broken")]
    with PageServer([*map(StoredPipeline, places), RunningPipeline("here")], "127.0.0.1", 0) as serving:
        yield serving


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A page that asks for a token, as one that listens elsewhere does."""
    serving = PageServer([StoredPipeline(finished(tmp_path_factory.mktemp("guarded") / "state"))], "127.0.0.1", 0)
    serving.access = Access.for_host("0.0.0.0")
    with serving:
        yield serving


def document(server: PageServer, path: str) -> Any:
    answer = asked(server.port, path)
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return json.loads(answer.text)


def test_one_document_has_all_pipelines(server: PageServer) -> None:
    pipelines = news(server.port)
    assert [each["snapshot"]["title"] for each in pipelines] == ["ended", "broken", "here"]
    assert pipelines[0]["snapshot"]["totals"]["records_in"] == 21
    assert pipelines[2]["snapshot"]["status"]["phase"] == "starting"


def test_what_is_known_is_not_sent_again(server: PageServer) -> None:
    versions = [each["version"] for each in news(server.port)]
    again = news(server.port, f"{versions[0]},old,{versions[2]}")
    assert [each["snapshot"] is None for each in again] == [True, False, True]


def test_graph_keys_contents_and_panes(server: PageServer) -> None:
    graph = document(server, "/pipelines/0/graph.json")
    assert {box["title"] for box in graph["across"]["boxes"]} == {"Scores", "Check", "Sum", "Rank", "Best"}
    keys = document(server, "/pipelines/1/keys.json?step=Sum")
    assert {row["key"] for row in keys["keys"]} == {"red", "blue"}
    assert keys["complete"]
    [entry, *_] = document(server, "/pipelines/1/keys.json?step=Sum&key=red")["entries"]
    assert (entry["cell"], entry["window"]) == ("window", "1970-01-01 00:02:00 to 1970-01-01 00:03:00")
    assert document(server, "/pipelines/1/keys.json?step=Sum&key=green")["entries"] == []
    steps = {step["step"]: step for step in document(server, "/pipelines/0/recorded.json")}
    assert (steps["Sum"]["recorded"], set(steps["Sum"]["keys"])) == (True, {"red", "blue"})
    panes = asked(server.port, "/pipelines/0/panes.html?step=Sum&key=red")
    assert panes.status == 200
    assert "key red of 2 keys" in panes.text


def test_the_picture_may_run_its_own_script_and_nothing_else(server: PageServer) -> None:
    panes = asked(server.port, "/pipelines/0/panes.html?step=Sum&key=red")
    [script] = re.findall("<script>(.*?)</script>", panes.text, re.DOTALL)
    wanted = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = panes.headers["content-security-policy"]
    assert f"script-src 'sha256-{wanted}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "frame-ancestors 'self'" in policy


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/live.json", "/nothing", "/pipelines/7/keys.json"])
def test_every_answer_has_the_headers_that_keep_others_out(server: PageServer, path: str) -> None:
    headers = asked(server.port, path, Origin="https://evil.example").headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers


def test_the_page_names_nothing_that_is_elsewhere() -> None:
    files = Application([], Access.for_host("127.0.0.1"), 0)._files
    assert set(files) >= {"index.html", "page.css", "page.js", "icon.svg"}
    for name, contents in files.items():
        text = contents.decode().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"(?m)(^|\s)//.*$", "", text).replace("/*", ""), name
        assert "innerHTML" not in text and "eval(" not in text, name
    assert b"<script>" not in files["index.html"] and b"style=" not in files["index.html"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_it_is_read_only(server: PageServer, method: str) -> None:
    answer = asked(server.port, "/live.json", method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert "The page is read only" in answer.text


def test_head_is_answered_without_a_body(server: PageServer) -> None:
    answer = asked(server.port, "/", "HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        *("/../pyproject.toml", "/..%2fpage.css", "/%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "//etc/passwd"),
        *("/page/../../__init__.py", "/page.css/", "/__init__.py", "/index.html%00.css", "/pipelines", "/."),
        *("/static/page.css", "/pipelines/-1/graph.json", "/pipelines/x/graph.json", "/pipelines/0/other.json"),
    ],
)
def test_only_its_own_files_are_served(server: PageServer, path: str) -> None:
    answer = asked(server.port, path)
    assert answer.status == 404
    assert "root:" not in answer.text and "[project]" not in answer.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/pipelines/9/graph.json", 404, "There is no such pipeline; there are 3, from 0 on."),
        (f"/pipelines/{'9' * 5_000}/graph.json", 404, "There is no such pipeline"),
        ("/pipelines/0/keys.json?step=Nothing", 404, "has no step 'Nothing' that keeps state (steps: Sum, Best)"),
        ("/pipelines/0/keys.json", 404, "has no step ''"),
        ("/pipelines/2/keys.json?step=Sum", 404, "run the pipeline with --checkpoint=PLACE"),
        ("/pipelines/0/panes.html?step=Nothing", 404, "no step named 'Nothing'"),
        (f"/pipelines/0/panes.html?step=Sum&key={quote('<script>alert(1)</script>')}", 404, "<script>alert(1)"),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_as_data(
    server: PageServer, path: str, status: int, said: str
) -> None:
    answer = asked(server.port, path)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json", "never as a page, whatever it repeats"
    assert said in json.loads(answer.text)["error"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:80", "[::1]:9", "127.0.0.2:1"])
def test_this_machine_is_served_under_its_own_names(server: PageServer, host: str) -> None:
    assert asked(server.port, "/live.json", Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7", "", "localhost.", "[::2]"]
)
def test_a_name_that_somebody_else_has_pointed_here_is_refused(server: PageServer, host: str) -> None:
    for path in ("/", "/live.json", "/page.js"):
        answer = asked(server.port, path, Host=host)
        assert answer.status == 421
        assert "clicks" not in answer.text


def test_pages_of_other_sites_may_link_here_and_nothing_else(server: PageServer) -> None:
    for site, mode, status in (
        ("cross-site", "no-cors", 403),
        ("same-site", "cors", 403),
        ("cross-site", "navigate", 200),
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        assert asked(server.port, "/live.json", **headers).status == status, headers


def test_elsewhere_a_token_is_asked_for(guarded: PageServer) -> None:
    token = guarded.access.token
    assert token is not None and len(token) >= 43
    assert guarded.address.endswith(f"/?token={token}")
    for path in ("/", "/live.json", "/page.js", "/nothing", "/?token=", "/?token=wrong", "/live.json?token=" + token):
        answer = asked(guarded.port, path)
        assert answer.status == 401, path
        assert "it ends in a token" in answer.text
        assert "set-cookie" not in answer.headers
    assert asked(guarded.port, "/live.json", Cookie=f"headrace-page-{guarded.port}=wrong").status == 401
    assert asked(guarded.port, "/live.json", Cookie="headrace-page-1=" + token).status == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(guarded: PageServer) -> None:
    answer = asked(guarded.port, f"/?token={guarded.access.token}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie
    own = cookie.partition(";")[0]
    for path in ("/", "/live.json", "/page.js"):
        assert asked(guarded.port, path, Cookie=f"other=1; {own}").status == 200
    assert asked(guarded.port, "/live.json", Cookie=own, Host="evil.example").status == 421
    assert asked(guarded.port, "/live.json", Cookie=own, Host="10.1.2.3:80").status == 200


def test_two_pages_have_two_tokens() -> None:
    assert Access.for_host("0.0.0.0").token != Access.for_host("0.0.0.0").token
    assert Access.for_host("127.0.0.1").token is Access.for_host("::1").token is None
    assert Access.for_host("localhost").token is None
    assert not replace(Access.for_host("0.0.0.0")).knows_token(None)


def test_the_address_is_one_that_can_be_opened() -> None:
    for host, begin in {"127.0.0.1": "http://127.0.0.1:", "::1": "http://[::1]:"}.items():
        assert PageServer([], host, 80).address.startswith(begin)
    assert PageServer([], "0.0.0.0", 80).address.startswith(f"http://{socket.gethostname()}:80/?token=")


def test_a_port_in_use_and_an_address_of_another_machine_are_refused(server: PageServer) -> None:
    for host, port in (("127.0.0.1", server.port), ("192.0.2.1", 0)):
        with pytest.raises(PortError, match="give another port, or 0 for one that is free"), PageServer([], host, port):
            pass


def test_it_stops_with_its_thread_though_somebody_is_connected() -> None:
    before = set(threading.enumerate())
    with PageServer([], "127.0.0.1", 0) as serving:
        waiting = http.client.HTTPConnection("127.0.0.1", serving.port)
        waiting.request("GET", "/live.json")
        assert json.loads(Answer(waiting.getresponse()).text)["pipelines"] == []
        port = serving.port
    assert "headrace page" not in {thread.name for thread in set(threading.enumerate()) - before}
    waiting.close()
    with pytest.raises(OSError, match="refused"):
        asked(port, "/")


def test_many_readers_at_once_get_the_same(server: PageServer) -> None:
    found: list[str] = []
    readers = [threading.Thread(target=lambda: found.append(asked(server.port, "/live.json").text)) for _ in range(12)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(found) == 12
    assert len({json.loads(text)["pipelines"][0]["version"] for text in found}) == 1


def test_a_checkpoint_that_is_gone_is_an_answer_too(tmp_path: Path) -> None:
    pipeline = StoredPipeline(str(tmp_path / "nothing"))
    with PageServer([pipeline], "127.0.0.1", 0) as serving:
        [pipeline] = news(serving.port)
        assert pipeline["snapshot"]["status"]["phase"] == "unreadable"
        answer = asked(serving.port, "/pipelines/0/keys.json?step=Sum")
        assert answer.status == 503
        assert "there is no checkpoint" in json.loads(answer.text)["error"]
