"""A pipeline that runs in a notebook shows how far it is, in place; what IPython documents plays the kernel."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.notebook import NotebookDisplay, Picture


class Page:
    """What stands under a cell: one output for each call of `display`, and how often it was changed."""

    def __init__(self) -> None:
        self.outputs: list[list[object]] = []

    def display(self, shown: object, *, display_id: bool = False) -> SimpleNamespace:
        """As `IPython.display.display` does when it is asked for an id: it gives a handle with `update`."""
        assert display_id
        output = [shown]
        self.outputs.append(output)
        return SimpleNamespace(update=output.append)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    page = Page()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined] - a module made up here
    display.display = page.display  # type: ignore[attr-defined] - a module made up here
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return page


def counted(**options: object) -> beam.Pipeline:
    pipeline = beam.Pipeline("LocalRunner", PipelineOptions([], **options))
    _ = pipeline | "Words" >> beam.Create([("a", 1), ("<b>", 2)]) | "Sum" >> beam.CombinePerKey(sum)
    return pipeline


def test_a_run_in_a_notebook_shows_one_picture_that_ends_with_the_run(page: Page) -> None:
    counted().run()
    [[first, *_, last]] = page.outputs
    assert isinstance(first, Picture)
    assert isinstance(last, Picture)
    assert repr(first) == "starting"
    assert repr(last).startswith("done   epoch 1   in 2 ")
    html = last._repr_html_()
    for word in ("done", "duplicates", "watermark", "last epoch", "<td", "Words", "Sum"):
        assert word in html


def test_a_run_that_fails_says_so(page: Page) -> None:
    pipeline = counted()
    _ = pipeline | beam.Create([0]) | "Divide" >> beam.Map(lambda number: 1 / number)
    with pytest.raises(Exception, match="division by zero"):
        pipeline.run()
    assert repr(page.outputs[0][-1]) == "failed"


def test_a_recorded_run_is_shown_too(page: Page) -> None:
    pipeline = beam.Pipeline("LocalRunner", record=True)
    _ = pipeline | beam.Create([("a", 1)]) | beam.CombinePerKey(sum)
    assert pipeline.run().recording.steps
    assert repr(page.outputs[0][-1]).startswith("done")


def test_no_picture_where_there_is_another_reporter_or_none_is_wanted(page: Page) -> None:
    told: list[EpochProgress] = []
    counted(progress=told.append).run()
    counted(progress=False).run()
    assert (page.outputs, [progress.epoch for progress in told]) == ([], [1])


def test_no_picture_in_a_shell_of_ipython_without_a_kernel(page: Page) -> None:
    sys.modules["IPython"].get_ipython = lambda: None  # type: ignore[attr-defined] - a module made up here
    counted().run()
    assert page.outputs == []


def test_progress_that_is_no_function_is_refused() -> None:
    with pytest.raises(ValueError, match="progress is 'rich'; give a function"):
        counted(progress="rich").run()


def test_pictures_are_no_more_frequent_than_a_page_can_take_and_the_last_is_shown() -> None:
    page, now = Page(), 0.0
    with NotebookDisplay(lambda shown: page.display(shown, display_id=True), clock=lambda: now) as display:
        for epoch in range(1, 101):
            now = epoch / 100
            display(EpochProgress(epoch, 10 * epoch, 0, 0, 0, 0, 0, 0, 0.01))
    [pictures] = page.outputs
    assert len(pictures) <= 7
    assert repr(pictures[-1]).startswith("done   epoch 100   in 1,000 (1,000/s)")


def test_names_of_steps_are_text_in_the_page() -> None:
    from headrace.lowlevel.metric import ENGINE, TypedMetricName
    from headrace.lowlevel.metric_cells import CounterCell
    from headrace.runners.reporting.figures import Rates

    cells = {"<script>": {TypedMetricName("counter", ENGINE, "records_in"): CounterCell(3)}}
    html = Picture("running", EpochProgress(1, 3, 3, 0, 0, 0, 0, 0, 0.1, cells), Rates())._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
