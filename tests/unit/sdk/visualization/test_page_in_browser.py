"""The page of a recorded run in a real browser: the mouse drags its slider, keys go from event to event, it plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.streaming102 import sessions
from examples.streaming102.scores import HEURISTIC
from headrace import plot
from tests.browser import PROGRAM, Browser
from tests.recorded import record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium: ./dev test installs Debian's, if it may"),
]

LOOK = """(() => {
  const visible = (selector) => [...document.querySelectorAll(selector)]
    .filter((thing) => getComputedStyle(thing).visibility === "visible");
  return {
    clock: document.getElementById("clock").value,
    inputs: visible("g.dot").map((its) => its.querySelector("text").textContent),
    values: visible("text.value").map((its) => its.textContent),
    growing: visible(".pane.growing").length,
    happens: document.getElementById("happens").textContent,
    play: document.getElementById("play").textContent,
  };
})()"""
ENDED = """new Promise((done) => {
  const look = () => document.getElementById("play").textContent === "Play" ? done() : setTimeout(look, 20);
  look();
})"""
CLOCKS = """(() => {
  window.clocks = [];
  window.watching?.disconnect();
  const seen = () => clocks.push(document.getElementById("clock").value);
  const all = { childList: true, characterData: true, subtree: true };
  window.watching = new MutationObserver(seen);
  watching.observe(document.getElementById("clock"), all);
})()"""
ALL = ["5", "7", "10", "25  −7  −10", "3", "11  −3", "39  −5  −25", "12  −11"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder: Path = tmp_path_factory.mktemp("page")
    plot.html(record(sessions.build, HEURISTIC), folder / "page.html")
    written = (folder / "page.html").read_text(encoding="utf-8")
    assert "seconds = 20;" in written
    # A tenth of the time that a person wants.
    (folder / "page.html").write_text(written.replace("seconds = 20;", "seconds = 2;"), encoding="utf-8")
    with Browser(folder / "profile", folder / "page.html") as browser:
        yield browser


def look(browser: Browser) -> dict[str, Any]:
    return dict(browser.run(LOOK))


def test_it_begins_at_the_end(browser):
    seen = look(browser)
    assert sorted(seen["inputs"]) == sorted(str(score.points) for score in HEURISTIC.scores)
    assert seen["values"] == ALL


def test_keys_go_from_event_to_event(browser):
    browser.press("Home")
    home = look(browser)
    assert (home["inputs"], home["values"], home["happens"]) == ([], [], "nothing has happened yet")
    browser.press("ArrowRight")
    first = look(browser)
    assert (first["clock"], first["inputs"], first["values"]) == ("12:05:45", ["5"], ["5"])
    assert first["happens"] == "12:05:45: 5 arrives, of 12:00:45; pane [12:00:45, 12:01:45): 5 (on time)"
    browser.press("ArrowRight")
    second = look(browser)
    assert (second["clock"], second["inputs"], second["values"]) == ("12:05:55", ["5", "7"], ["5"])
    assert second["growing"] == 1
    browser.press("ArrowLeft")
    assert look(browser) == first
    browser.press("End")
    assert look(browser)["values"] == ALL


def test_the_slider_follows_the_mouse(browser):
    left, top, width, height = browser.run(
        '(() => { const its = document.getElementById("time").getBoundingClientRect();'
        "return [its.left, its.top, its.width, its.height]; })()"
    )
    browser.press("End")
    # Its middle is about 12:07:40, and what has come until then is to be seen.
    browser.drag((left + width - 8, top + height / 2), (left + width / 2, top + height / 2))
    seen = look(browser)
    assert "12:07:30" < seen["clock"] < "12:08:00"
    assert seen["values"] == ALL[:4]
    assert browser.run('document.getElementById("time").getAttribute("aria-valuetext")') == seen["clock"]
    # Nobody knows at 12:07:20 of the session that the 8 will make ten seconds later.
    browser.run('location.hash = "#12:07:20"; new Promise((done) => setTimeout(done, 0))')
    seen = look(browser)
    assert (seen["clock"], seen["values"], seen["growing"]) == ("12:07:20", ALL[:3], 0)


def test_it_plays_and_pauses(browser):
    browser.press("Home")
    browser.run(CLOCKS)
    browser.press(" ")
    assert look(browser)["play"] == "Pause"
    browser.run(ENDED)
    assert look(browser)["values"] == ALL
    clocks = browser.run("clocks")
    assert clocks == sorted(clocks) and len(set(clocks)) > 5
    browser.press(" ")
    browser.press(" ")
    paused = look(browser)
    assert paused["play"] == "Play" and paused["values"] != ALL
    assert look(browser) == paused


def test_who_wants_no_motion_gets_one_picture_after_the_other(browser):
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    browser.press("Home")
    browser.press("ArrowRight")
    browser.run(CLOCKS)
    browser.press(" ")
    browser.run(
        "new Promise((done) => { const look = () => clocks.length > 1 ? done() : setTimeout(look, 20); look(); })"
    )
    browser.press(" ")
    assert browser.run("clocks") == ["12:05:55", "12:06:00"], "the times of the next events"
