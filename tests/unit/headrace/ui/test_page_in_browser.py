"""The page in a real browser: figures follow the run, keys reach everything, nothing sticks out, in light and dark."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import EpochProgress
from headrace.runners.local import LocalRunner
from headrace.ui.pipelines import RunningPipeline, StoredPipeline
from headrace.ui.server import PageServer
from tests.browser import PROGRAM, Browser
from tests.pageruns import finished, scores, stopped

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium: ./dev test installs Debian's, if it may"),
]

TEXT = "document.querySelector('#pipeline{}').innerText"
STICKING_OUT = """(() => {
  const inScroller = (each) => each.closest(".scroller, .results");
  const place = (each) => each.getBoundingClientRect();
  return [...document.querySelectorAll("main *")].filter((each) => !inScroller(each) && place(each).width > 0
    && place(each).right > innerWidth + 1).map((each) => each.outerHTML.slice(0, 120));
})()"""
GRAPHS_CUT = """[...document.querySelectorAll(".graph svg")].map((its) => its.parentNode)
  .filter((its) => its.scrollWidth > its.clientWidth + 1).length"""
CONTRASTS = """(() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => channels(colour).slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0.99) return colour;
    }
  };
  return [...document.querySelectorAll("h1, h2, h3, p, dt, dd span, th, td, li, button, label, summary, a, .chip")]
    .filter((each) => each.innerText?.trim() && each.checkVisibility()).map((each) => {
      const [a, b] = [light(getComputedStyle(each).color), light(ground(each))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), each.className || each.tagName, each.innerText.slice(0, 30)];
    }).filter(([contrast]) => contrast < 4.5);
})()"""


class Page:
    """A page about three pipelines in one browser."""

    def __init__(self, browser: Browser, running: RunningPipeline) -> None:
        self.browser, self.running = browser, running

    def text(self, pipeline: int) -> str:
        return str(self.browser.run(TEXT.format(pipeline)))

    def until(self, script: str) -> Any:
        """The value of an expression as soon as it is a true one."""
        ended = time.monotonic() + 15
        while not (value := self.browser.run(script)):
            assert time.monotonic() < ended, f"{script}: {self.browser.run('document.body.innerText')}"
            time.sleep(0.05)
        return value


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder: Path = tmp_path_factory.mktemp("browser")
    stored = [StoredPipeline(finished(folder / "ended", record=True)), StoredPipeline(stopped(folder / "broken"))]
    running = RunningPipeline("live.py", topology=scores().topology)
    with (
        PageServer([*stored, running], "127.0.0.1", 0) as server,
        Browser(folder / "profile", server.address) as browser,
    ):
        found = Page(browser, running)
        found.until("document.querySelectorAll('.pipeline .box').length > 8")
        yield found


def test_finished_and_broken_pipelines_stand_side_by_side_with_their_figures(page: Page) -> None:
    ended, broken = page.text(0), page.text(1)
    assert "✓ finished" in ended and "The input has ended" in ended
    assert re.search(r"step Sum: key (red|blue), window from 1970-01-01T00:02:00Z", broken)
    for text in ("⚠ 1", "lost of its input", "Key intervals", "Level 1: Sum. 1 interval"):
        assert text in ended
    page.browser.show_at(2000)
    tops = page.browser.run("[...document.querySelectorAll('.pipeline')].map((its) => its.getBoundingClientRect().top)")
    assert tops[0] == tops[1]


def test_a_run_appears_as_it_goes_on_and_can_be_paused(page: Page) -> None:
    assert "◌ starting" in page.text(2)
    scores(progress=page.running.note).run()
    page.until("document.querySelector('#pipeline2').innerText.includes('▶ running')")
    page.until("document.querySelectorAll('#pipeline2 .box').length === 5")
    assert "21 records" in page.browser.run(
        "document.querySelector('#pipeline2 .graph').textContent"
    ) or "/s" in page.text(2)
    page.browser.run("document.getElementById('pause').click()")
    epoch = "document.querySelector('#pipeline2 .tile[data-name=epoch] .value').textContent"
    before = page.browser.run(epoch)
    page.running.note(EpochProgress(99, 30, 2, 0, 0, 5, int(time.time() * 1e6), 8, 0.25))
    time.sleep(1.5)
    assert page.browser.run(epoch) == before
    page.browser.run("document.getElementById('pause').click()")
    page.until(f"{epoch} === '99'")


@pytest.mark.parametrize("width", [400, 1000, 2000])
def test_nothing_sticks_out_and_every_text_can_be_read(page: Page, width: int) -> None:
    for dark in (False, True):
        page.browser.show_at(width, dark=dark)
        time.sleep(0.3)
        assert page.browser.run("document.documentElement.scrollWidth - innerWidth") == 0
        assert page.browser.run(STICKING_OUT) == []
        assert page.browser.run(GRAPHS_CUT) == 0
        assert page.browser.run(CONTRASTS) == []


def test_every_chart_has_a_table_and_every_part_a_name(page: Page) -> None:
    run = page.browser.run
    assert run("[...document.querySelectorAll('svg[role=img]')].every((its) => its.getAttribute('aria-label'))")
    assert run("[...document.querySelectorAll('.panel')].every((its) => its.querySelector('h3').textContent)")
    assert run(
        "[...document.querySelectorAll('table')].filter((its) => its.tBodies[0].rows.length)"
        ".every((its) => its.caption.textContent && its.tHead.querySelector('th[scope=col]'))"
    )
    assert run("[...document.querySelectorAll('input, select')].every((its) => its.labels.length === 1)")
    assert run("document.querySelectorAll('main').length === 1 && document.querySelectorAll('h1').length === 1")
    assert run("[...document.querySelectorAll('dl.tiles > div > *')].every((its) => /D[TD]/.test(its.tagName))")


def test_screen_readers_are_told_of_standings_and_not_of_figures(page: Page) -> None:
    summary = page.until("document.getElementById('summary').textContent")
    assert summary.startswith("ended: finished. broken: ")
    page.running.note(EpochProgress(100, 4_321, 2, 0, 0, 5, int(time.time() * 1e6), 8, 0.25))
    page.until("document.querySelector('#pipeline2 .tiles').innerText.includes('4,321')")
    assert page.browser.run("document.getElementById('summary').textContent").startswith("ended: finished. broken: ")
    assert "4,321" not in page.browser.run("document.getElementById('summary').textContent")


def list_steps(page: Page) -> None:
    button = "[...document.querySelectorAll('#pipeline0 button')].find((its) => its.textContent.startsWith('List'))"
    page.browser.run(f"{button}.hidden || {button}.click()")
    page.until(f"{button}.hidden")


def test_the_keyboard_reaches_state_and_panes(page: Page) -> None:
    page.browser.show_at(1000)
    run = page.browser.run
    run("document.querySelector('#pipeline0 form.fields input').focus()")
    page.browser.press("Tab")
    assert run("document.activeElement.textContent") == "Show state"
    assert run("getComputedStyle(document.activeElement).outlineStyle") == "solid", "what has the focus is seen"
    page.browser.press(" ")
    page.until("document.body.innerText.includes('keys with the most state')")
    run("[...document.querySelectorAll('#pipeline1 form.fields button')][0].focus()")
    page.browser.press(" ")
    page.until("document.querySelectorAll('#pipeline1 .results button').length === 2")
    run("document.querySelector('#pipeline1 .results button').focus()")
    page.browser.press(" ")
    page.until("document.activeElement.textContent.startsWith('key ')")
    assert "entr" in run("document.activeElement.textContent"), "the button is gone, so the focus is on what it says"
    assert "window\t" in run("document.querySelector('#pipeline1 .entries').innerText")
    page.browser.press("Tab")
    run("[...document.querySelectorAll('#pipeline1 button')].find((its) => its.textContent.startsWith('Back')).click()")
    page.until("document.querySelectorAll('#pipeline1 .results button').length === 2")
    list_steps(page)
    page.until("document.activeElement.tagName === 'SELECT' && document.activeElement.options.length === 2")
    assert "Sum: " in run("document.activeElement.options[0].textContent")
    run("[...document.querySelectorAll('#pipeline0 button')].find((its) => its.textContent === 'Draw').click()")
    page.until("document.querySelector('#pipeline0 iframe').contentDocument?.getElementById('clock')?.value")
    assert int(run("document.querySelector('#pipeline0 iframe').height")) > 500


def test_the_browser_has_refused_nothing(page: Page) -> None:
    page.browser.run("1")
    assert page.browser.problems == []


def test_a_picture_that_cannot_be_drawn_says_why(page: Page) -> None:
    list_steps(page)
    page.browser.run(
        "(() => { const key = document.querySelector('#pipeline0 input[list]'); key.value = 'nobody';"
        " key.form.requestSubmit(); })()"
    )
    page.until("document.querySelector('#pipeline0').innerText.includes(\"has seen no key 'nobody'\")")
    assert page.browser.run("document.querySelector('#pipeline0 iframe').hidden")
    assert [problem for problem in page.browser.problems if "404" not in problem] == []
    page.browser.problems.clear()


LONG = "AStepWhoseNameHasNoSpaceAndIsFarLongerThanAnyScreenIsWideSoThatItCannotStandOnOneLine"


STUCK = """(async () => {
  const [{ PipelineView }, news] = [await import("./pipeline.js"), await (await fetch("live.json")).json()];
  const shown = news.pipelines[1].snapshot, view = new PipelineView(0, async () => { throw new Error("no graph"); });
  document.body.append(view.element);
  const timed = shown.steps.filter((its) => its.watermark);
  timed.forEach((step) => { step.still = 40; step.still_at_first = step.step === "Sum"; });
  view.update(shown);
  const text = view.element.innerText;
  view.element.remove();
  return text;
})()"""


def test_what_stands_still_is_said_with_what_it_waits_for(page: Page) -> None:
    text = page.browser.run(STUCK)
    assert "Source Scores has stood at 1970-01-01 00:02:10 for 40 s while others went on." in text
    assert "The watermark of Sum has stood at 1970-01-01 00:02:10 for at least 40 s while records came." in text
    assert "It waits for source Scores, which is at 1970-01-01 00:02:10." in text


def test_another_run_at_the_same_place_is_shown_as_itself(tmp_path: Path) -> None:
    long = beam.Pipeline(LocalRunner(), PipelineOptions(checkpoint=str(tmp_path / "long")))
    _ = long | beam.Create([("red", 1)]) | LONG >> beam.CombinePerKey(sum)
    long.run()
    ended, other = (StoredPipeline(place) for place in (finished(tmp_path / "ended"), str(tmp_path / "long")))
    with PageServer([ended, other], "127.0.0.1", 0) as server, Browser(tmp_path / "profile", server.address) as browser:
        page = Page(browser, RunningPipeline("none"))
        page.until("document.querySelectorAll('.pipeline .box').length > 6")
        browser.show_at(400)
        time.sleep(0.3)
        assert browser.run("document.documentElement.scrollWidth") == 400
        assert browser.run(STICKING_OUT) == []
        server.__exit__(None, None, None)
        page.until("document.getElementById('link').textContent.endsWith('what served the page has ended')")
        with PageServer([other], "127.0.0.1", server.port):
            page.until("document.querySelectorAll('.pipeline').length === 1")
            page.until("document.querySelector('.graph').textContent.includes('AStepWhoseName')")
            assert browser.run("document.getElementById('link').textContent") == "live"
