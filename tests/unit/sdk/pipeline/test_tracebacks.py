"""Errors of a run show the frames of the program, and none of the engine that say nothing to a user."""

from __future__ import annotations

import pickle
import traceback

import pytest

import headrace as beam
from headrace import col
from headrace.lowlevel import StepError
from headrace.lowlevel.user_errors import FULL, own_traceback
from headrace.runners.local import LocalRunner

BAD = {
    "csv": ("a,b\n1,2\n3,4,5\n", beam.io.ReadFromCsv, "line 3: CSV parse error: Expected 2 columns, got 3: 3,4,5"),
    "json": ('{"a": 1}\n{bad\n', beam.io.ReadFromJson, "line 2: not JSON "),
    "txt": ("good\n\udce9\n", beam.io.ReadFromText, "not UTF-8"),
    "parquet": ("PAR1 no more", beam.io.ReadFromParquet, ""),
    "avro": ("Obj", beam.io.ReadFromAvro, ""),
}


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def engine_frames(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    return [line for line in lines if __file__ not in line]


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.delenv(FULL, raising=False)


@pytest.mark.parametrize("ending", BAD)
def test_a_damaged_file_is_named_without_a_frame_of_the_engine(tmp_path, ending):
    content, read, message = BAD[ending]
    path = tmp_path / f"bad.{ending}"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(StepError, match=r"bad[.]") as caught, beam.Pipeline(LocalRunner()) as pipeline:
        pipeline | read(str(path)) | beam.Map(print)
    assert message in shown(caught.value)
    assert not [frame for frame in engine_frames(shown(caught.value)) if "pytest" not in frame]


def test_a_refusal_inside_of_user_code_ends_with_the_users_line():
    with pytest.raises(StepError) as caught, beam.Pipeline(LocalRunner()) as pipeline:
        pipeline | beam.Create([1]) | beam.Map(lambda one: beam.transforms.window.TimestampedValue(one, "noon"))
    lines = caught.value.cause.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert __file__ in lines[1]
    assert not engine_frames(caught.value.cause)
    assert "noon" in lines[-1]


@pytest.mark.parametrize("fault", ["{}[0]", "None.name", "int('x')", "assert False"])
def test_a_fault_of_the_engine_keeps_its_frames(fault):
    engine = beam.Create.__init__.__code__.co_filename
    with pytest.raises(Exception) as caught:
        exec(compile(f"def f(): {fault}\nf()", engine, "exec"), {})
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert own_traceback(error).count(f'File "{engine}"') == 2


def test_all_frames_are_there_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv(FULL, "1")
    path = tmp_path / "bad.json"
    path.write_text("{bad")
    with pytest.raises(StepError) as caught, beam.Pipeline(LocalRunner()) as pipeline:
        pipeline | beam.io.ReadFromJson(str(path)) | beam.Map(print)
    assert "line_ranges.py" in caught.value.cause


class TestColumnExpressions:
    """Their errors show the line of the program that makes the expression."""

    def caught(self, element, made):
        with pytest.raises(StepError) as caught, beam.Pipeline(LocalRunner()) as pipeline:
            pipeline | beam.Create([element, element]) | made | beam.Map(print)
        return caught.value

    @pytest.mark.parametrize(
        ("made", "text"),
        [
            (beam.Filter(col.prize > 3), "beam.Filter(col.prize > 3)"),
            (beam.Filter(col("prize") > 3), 'beam.Filter(col("prize") > 3)'),
            (beam.Map(col.prize), "beam.Map(col.prize)"),
            (beam.Select("team", double=col.prize * 2), "double=col.prize * 2"),
            (beam.Select("prize"), 'beam.Select("prize")'),
            (beam.GroupBy("prize"), 'beam.GroupBy("prize")'),
            (beam.GroupBy("team").aggregate_field("prize", sum, "total"), 'aggregate_field("prize", sum'),
        ],
    )
    def test_a_misspelt_field(self, made, text):
        error = self.caught({"team": "red", "price": 3}, made)
        assert text in error.cause.splitlines()[2]
        assert f'File "{__file__}", line ' in error.cause.splitlines()[1]
        assert error.cause.endswith("the element has no field 'prize'; it has team, price\n")
        assert shown(error).count("the element has no field 'prize'") == 2, "by the error and by its cause"
        assert "<string>" not in shown(error)

    def test_any_other_error(self):
        error = self.caught({"price": 3}, beam.Map(col.price / 0))
        assert "beam.Map(col.price / 0))" in error.cause.splitlines()[2]
        assert "^" not in error.cause

    def test_after_pickling(self):
        made = pickle.loads(pickle.dumps(col.prize > 3))
        with pytest.raises(KeyError) as caught:
            made({})
        assert own_traceback(caught.value).count("made = pickle.loads(pickle.dumps(col.prize > 3))") == 1
