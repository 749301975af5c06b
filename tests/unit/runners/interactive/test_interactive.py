"""In a notebook or a shell: elements of a collection at once, readable results, errors without the engine's frames."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import headrace as beam
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.user_errors import FULL
from headrace.options.pipeline_options import PipelineOptions
from headrace.recording import Recording
from headrace.runners.interactive import interactive_beam as ib
from headrace.sdk.transforms.core.low_level import Source
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from tests.unit.sdk.operators.splittable.test_splittable_par_do import Ticks

HERE = Path(__file__).name


def scores(pipeline: beam.Pipeline) -> beam.PCollection:
    """Sums of teams, a minute each."""
    return (
        pipeline
        | "Scores" >> beam.Create([("red", 5, 10), ("blue", 7, 20), ("red", 4, 75), ("red", 1, 12)])
        | beam.Map(lambda score: TimestampedValue(score[:2], score[2]))
        | beam.WindowInto(FixedWindows(60))
        | "Sum" >> beam.CombinePerKey(sum)
    )


def test_collect_gives_the_elements_and_runs_nothing_else(tmp_path: Path) -> None:
    options = PipelineOptions([f"--checkpoint={tmp_path / 'state'}"])
    pipeline = beam.Pipeline("LocalRunner", options)
    seen: list[object] = []
    sums = scores(pipeline)
    _ = sums | beam.io.WriteToText(str(tmp_path / "out"))
    _ = sums | beam.Map(seen.append)
    before = len(pipeline.steps)
    for _again in range(2):
        assert sorted(ib.collect(sums)) == [("blue", 7), ("red", 4), ("red", 6)]
    assert len(ib.collect(sums, n=2)) == 2
    assert (len(pipeline.steps), seen, list(tmp_path.iterdir())) == (before, [], [])
    pipeline.run()
    assert list(tmp_path.glob("out*"))


def test_collect_tells_windows_and_sees_side_inputs_and_branches() -> None:
    pipeline = beam.Pipeline("LocalRunner")
    found = ib.collect(scores(pipeline), include_window_info=True)
    assert {(each.value, each.windows[0]) for each in found} == {
        (("red", 6), IntervalWindow(0, 60)),
        (("blue", 7), IntervalWindow(0, 60)),
        (("red", 4), IntervalWindow(60, 120)),
    }
    least = pipeline | "Least" >> beam.Create([2])
    numbers = pipeline | "Numbers" >> beam.Create([1, 2, 3])
    kept = numbers | beam.Filter(lambda number, least: number >= least, beam.pvalue.AsSingleton(least))
    assert sorted(ib.collect((kept, numbers) | beam.Flatten())) == [1, 2, 2, 3, 3]
    assert ib.collect(pipeline | "Nothing" >> beam.Create([])) == []


def test_what_cannot_be_collected_is_refused() -> None:
    with pytest.raises(TypeError, match="collect takes a collection, got 5"):
        ib.collect(5)  # type: ignore[arg-type] - that is what is refused
    with pytest.raises(ValueError, match="n is -1; give how many"):
        ib.collect(scores(beam.Pipeline("LocalRunner")), n=-1)


def test_show_prints_a_table_and_in_a_notebook_displays_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = beam.Pipeline("LocalRunner")
    ib.show(scores(pipeline), pipeline | "Words" >> beam.Create(["<b>"]))
    shown = capsys.readouterr().out.splitlines()
    assert (shown[0], shown[-2:]) == ("Sum: 3 elements", ["element", "<b>"])
    displayed: list[object] = []
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined] - a module made up here
    display.display = displayed.append  # type: ignore[attr-defined] - a module made up here
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    ib.show(pipeline | "More" >> beam.Create(["<b>"]), include_window_info=True)
    [table] = displayed
    assert "<td>&lt;b&gt;</td>" in table._repr_html_()  # type: ignore[attr-defined] - of what is displayed
    assert "<th>window</th>" in table._repr_html_()  # type: ignore[attr-defined] - of what is displayed
    assert capsys.readouterr().out == ""


def test_a_result_and_a_recording_can_be_read() -> None:
    pipeline = beam.Pipeline("LocalRunner", record=True)
    scores(pipeline)
    result = pipeline.run()
    assert repr(result) == "DONE after 1 epoch\n  Scores: 4 records\n  Sum: 4 records"
    assert "<td>Sum</td><td>4 records</td>" in result._repr_html_()
    lines = repr(result.recording).splitlines()
    assert lines == [
        'a recording of 1 step; headrace.plot.html(recording, "run.html", step="Sum") draws one',
        "  Sum: 4 inputs, 3 panes, 2 keys",
    ]
    assert "<td>4 inputs, 3 panes, 2 keys</td>" in result.recording._repr_html_()
    assert repr(Recording()) == "a recording of 0 steps"


def failing() -> beam.Pipeline:
    pipeline = beam.Pipeline("LocalRunner")
    _ = pipeline | beam.Create([1, 0]) | "Divide" >> beam.Map(lambda number: 1 / number)
    return pipeline


def frames(error: BaseException) -> list[str]:
    return [f"{Path(frame.filename).name}:{frame.name}" for frame in traceback.extract_tb(error.__traceback__)]


def test_an_error_has_the_frames_of_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "test_an_error_has_the_frames_of_the_program"
    with pytest.raises(StepError, match="division by zero") as raised, caplog.at_level(logging.DEBUG):
        failing().run()
    assert frames(raised.value) == [f"{HERE}:{name}"]
    assert f'{HERE}", line' in str(raised.value), "the line that failed"
    assert "driver.py" in caplog.text, "the whole traceback is logged at level DEBUG"
    with pytest.raises(StepError) as raised, failing():
        pass
    assert frames(raised.value) == [f"{HERE}:{name}"]
    with pytest.raises(StepError) as raised:
        ib.collect(beam.Pipeline("LocalRunner") | beam.Create([0]) | beam.Map(lambda number: 1 / number))
    assert frames(raised.value) == [f"{HERE}:{name}"]
    monkeypatch.setenv(FULL, "1")
    with pytest.raises(StepError) as raised:
        failing().run()
    assert "driver.py:run" in frames(raised.value)


def test_frames_of_the_program_below_the_engine_stay() -> None:
    class Refusing(beam.PTransform):
        def expand(self, numbers: beam.PCollection) -> beam.PCollection:
            return numbers

    def told(progress: object) -> None:
        raise StepError("told", None, None, "by the program")

    pipeline = beam.Pipeline("LocalRunner", PipelineOptions([], progress=told))
    _ = pipeline | beam.Create([1]) | Refusing()
    with pytest.raises(StepError) as raised:
        pipeline.run()
    assert frames(raised.value)[-1] == f"{HERE}:told"
    assert not any(frame.startswith("driver.py") for frame in frames(raised.value))


def test_a_shell_shows_few_lines(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import headrace as beam\n"
        "with beam.Pipeline('LocalRunner') as pipeline:\n"
        "    pipeline | beam.Create([1, 0]) | 'Divide' >> beam.Map(lambda number: 1 / number)\n"
    )
    ended = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count('File "') == 2, ended.stderr
    assert ended.stderr.count("program.py") == 2


class TestInputWithoutAnEnd:
    def test_a_source_is_refused_with_what_to_do(self):
        class Endless(Source):
            is_bounded = False

            def injector(self):
                raise AssertionError("nothing is read")

        rows = beam.Pipeline("LocalRunner") | "Clicks" >> Endless() | beam.Map(abs)
        for n in (math.inf, 3):
            with pytest.raises(ValueError, match=r"source 'Clicks' has no end, .* read it with an end \(ReadFromKafka"):
                ib.collect(rows, n=n)

    def test_a_step_that_may_have_none_is_named_while_it_runs(self, caplog):
        ticks = beam.Pipeline("LocalRunner") | beam.Create([3]) | "Ticks" >> beam.ParDo(Ticks())
        assert len(ib.collect(ticks)) == 3
        assert "step 'Ticks' may have no end; if it has none, this waits for ever" in caplog.text

    def test_a_test_stream_ends(self, caplog):
        stream = TestStream().add_elements([1, 2]).advance_watermark_to_infinity()
        assert sorted(ib.collect(beam.Pipeline("LocalRunner") | stream)) == [1, 2]
        assert not caplog.text
