"""The page of a run: open while the run goes on, told how it ends, and without cost for a run that nobody looks at."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, Computation, Context, Record, Topology
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.reporting import Reporters
from headrace.ui import PageReporter, course, pipelines
from headrace.ui.server import page_address
from headrace.ui.snapshot import Phase
from tests.pageruns import asked, news, scores


def live(reporter: PageReporter) -> Any:
    return news(_port(reporter))[0]["snapshot"]


def _port(reporter: PageReporter) -> int:
    return int(reporter.address.rpartition(":")[2].strip("/"))


def test_the_page_of_a_run_follows_it(tmp_path: Path, an_hour_passes: Callable[[], None]) -> None:
    place, seen = str(tmp_path / "state"), []
    page = PageReporter(checkpoint=place, title="scores.py")

    def look(progress: EpochProgress) -> None:
        page(progress)
        if progress.epoch in (1, 5):
            an_hour_passes()
            seen.append(live(page))

    with page:
        scores(checkpoint=place, progress=look).run()
        last = live(page)
    assert [shown["epoch"] for shown in seen] == [1, 5]
    assert [shown["status"]["phase"] for shown in seen] == ["running", "running"]
    assert seen[1]["stored"]["epoch"] == 5
    assert seen[1]["totals"]["records_in"] == 10
    assert last["title"] == "scores.py"
    assert last["totals"]["records_in"] == 21
    assert set(last["epochs"][-1]["phases"]) == {"tasks", "commit", "deliver"}
    with pytest.raises(OSError, match="refused"):
        live(page)


@pytest.mark.parametrize(
    ("error", "watermark", "phase"),
    [
        (None, MAX_TIMESTAMP, "finished"),
        (None, 0, "dead"),
        (ValueError("x"), MAX_TIMESTAMP, "failed"),
        (KeyboardInterrupt(), 0, "dead"),
    ],
)
def test_a_page_that_is_open_is_told_how_the_run_ends(error: BaseException | None, watermark: int, phase: str) -> None:
    page, shown = PageReporter(), []
    page.__enter__()
    page(EpochProgress(1, 1, 1, 0, 0, watermark, int(time.time() * 1e6), 0, 0.1))
    live(page)

    def ask() -> None:
        while not shown or shown[-1] == "running":
            shown.append(live(page)["status"]["phase"])
            time.sleep(0.1)

    reader = threading.Thread(target=ask)
    reader.start()
    time.sleep(0.2)
    page.__exit__(None if error is None else type(error), error, None)
    reader.join()
    assert (shown[0], shown[-1]) == ("running", phase)


def test_a_run_without_grouping_has_finished_too() -> None:
    page = PageReporter()
    pipeline = beam.Pipeline(LocalRunner(), PipelineOptions(progress=page))
    _ = pipeline | beam.Create([1, 2]) | beam.Map(str)
    with page:
        pipeline.run()
    assert page._pipeline.snapshot().status.phase is Phase.FINISHED


def test_a_run_that_nobody_looks_at_ends_at_once() -> None:
    with PageReporter() as page:
        page(EpochProgress(1, 1, 1, 0, 0, 0, 0, 0, 0.1))
        began = time.monotonic()
        page._server.show_end()
        assert time.monotonic() - began < 0.5


def test_while_nobody_looks_there_is_a_sample_a_second_and_nothing_else() -> None:
    noted: list[int] = []
    page = PageReporter()
    progress = EpochProgress(1, 1, 1, 0, 0, 0, 0, 0, 0.1)
    with (
        patch.object(course.Course, "note", lambda self, sample: noted.append(sample.epoch)),
        patch.object(pipelines, "time", SimpleNamespace(monotonic=iter([0.1 * n for n in range(100)]).__next__)),
    ):
        for _ in range(50):
            page(progress)
    assert 4 <= len(noted) <= 6


def test_the_page_is_one_of_several_reporters(tmp_path: Path) -> None:
    page, told = PageReporter(), []

    class Counting:
        def __enter__(self) -> Counting:
            return self

        def __call__(self, progress: EpochProgress) -> None:
            told.append(progress.epoch)

        def __exit__(self, *_: object) -> None:
            return

    with Reporters(page, Counting()) as reporters:
        scores(progress=reporters).run()
        assert live(page)["epoch"] == told[-1]


def test_one_of_several_reporters_is_told_with_what_the_run_has_failed() -> None:
    page = PageReporter()
    with pytest.raises(StepError), Reporters(page) as reporters:
        scores(fail_at=14, progress=reporters).run()
    status = page._pipeline.snapshot().status
    assert status.phase is Phase.FAILED
    assert "a score that is refused" in status.sentence
    assert status.committed is not None


def test_the_last_commit_is_read_though_it_is_not_due(tmp_path: Path) -> None:
    page = PageReporter(checkpoint=str(tmp_path / "state"))

    def look(progress: EpochProgress) -> None:
        page(progress)
        page._pipeline.snapshot()

    with page:
        scores(checkpoint=str(tmp_path / "state"), progress=look).run()
    shown = page._pipeline.snapshot()
    assert shown.stored is not None and shown.stored.epoch == shown.epoch


@pytest.mark.parametrize("library", ["fast_sugiyama", "starlette", "uvicorn"])
def test_a_library_that_is_not_installed_is_named_with_the_extra(library: str) -> None:
    with (
        patch.dict(sys.modules, {library: None}),
        pytest.raises(ImportError, match=rf"{library.replace('_', '-')}: .*headrace\[ui\]"),
    ):
        PageReporter()


def test_headrace_and_its_commands_are_imported_without_a_server() -> None:
    program = "import sys, headrace, headrace.cli.run; print([n for n in sys.modules if n in ('starlette', 'uvicorn')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_an_address_is_a_port_or_a_host_and_a_port() -> None:
    assert page_address("0.0.0.0:80") == ("0.0.0.0", 80)
    with pytest.raises(
        ValueError, match=r"the page cannot be served at 'here'; give a port .*, such as 8765 or 0.0.0.0:8765"
    ):
        page_address("here")


class Counts(Computation):
    """Keeps how many records a key has had."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = (context.state or 0) + 1


def test_a_checkpoint_that_is_signed_with_a_given_key_is_read_with_it(tmp_path: Path) -> None:
    place, secret = str(tmp_path / "state"), "a secret of the test, long enough"
    topology = Topology()
    topology.injector("keys", BoundedInjector([(number % 3, number) for number in range(9)]))
    topology.computation("counts", Counts(), {"keys": lambda key: key}, [])
    page = PageReporter(checkpoint=place, checkpoint_key=secret)
    with page:
        LocalRunner().run_topology(topology, RunOptions(place, secret, progress=page))
        assert live(page)["stored"] is not None
        for path in ("keys.json?step=counts", "recorded.json", "panes.html?step=counts"):
            answer = asked(_port(page), f"/pipelines/0/{path}")
            assert answer.status == 200, answer.text
