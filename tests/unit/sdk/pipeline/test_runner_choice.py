"""Which runner a pipeline runs on, and with which options."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel.errors import CheckpointError
from headrace.options.pipeline_options import EngineOptions, PipelineOptions, StandardOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.pipeline.runner_choice import find_runner, run_options
from tests.unit.collected import values


class TestRunners:
    def test_by_name(self):
        for name in ("LocalRunner", "DirectRunner", "local", "apache_beam.runners.direct.DirectRunner"):
            assert isinstance(find_runner(name), LocalRunner)

    def test_an_object_is_taken_as_it_is(self):
        runner = LocalRunner()
        assert find_runner(runner) is runner

    def test_by_environment(self, monkeypatch):
        monkeypatch.setenv("HEADRACE_RUNNER", "local")
        assert isinstance(find_runner(None), LocalRunner)

    def test_an_unknown_name(self, monkeypatch):
        with pytest.raises(ValueError, match=r"no runner is named 'FlinkRunner'; use 'local' or 'spark', or "):
            find_runner("FlinkRunner")
        monkeypatch.setenv("HEADRACE_RUNNER", "flink")
        with pytest.raises(ValueError, match=r"'flink' \(from the environment variable HEADRACE_RUNNER\)"):
            find_runner(None)

    def test_by_option(self):
        pipeline = beam.Pipeline(options=PipelineOptions(["--runner", "LocalRunner"]))
        pipeline | beam.Create([1])
        result = pipeline.run()
        assert (result.wait_until_finish(), result.epochs, result.counter("records")) == ("DONE", 1, 1)

    def test_what_is_no_runner(self):
        with pytest.raises(TypeError, match="runner must be a runner or the name of one, got 7"):
            beam.Pipeline(7)

    def test_nothing_to_run(self):
        result = beam.Pipeline("LocalRunner").run()
        assert (result.wait_until_finish(), result.epochs, result.counters) == ("DONE", 0, {})

    def test_a_checkpoint_makes_it_resumable(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HEADRACE_CHECKPOINT", str(tmp_path / "checkpoint"))
        # In the second run the input has been read, so nothing comes out any more.
        assert values(lambda p: p | beam.Create([1, 2])) == [1, 2]
        with pytest.raises(CheckpointError):
            values(lambda p: p | "other" >> beam.Create([1, 2]))


class TestOptions:
    def test_options_of_ones_own(self):
        class Mine(PipelineOptions):
            @classmethod
            def _add_argparse_args(cls, parser):
                parser.add_argument("--input", default="in.txt")
                parser.add_argument("--count", type=int, default=1)

        options = PipelineOptions(["--count=7", "--runner=LocalRunner", "--unknown=x", "--flag"])
        assert (options.view_as(Mine).count, options.view_as(Mine).input) == (7, "in.txt")
        assert options.view_as(StandardOptions).runner == "LocalRunner"
        options.view_as(Mine).count = 8
        assert options.view_as(Mine).count == 8
        assert options.get_all_options(drop_default=True, retain_unknown_options=True) == {
            "count": 8, "runner": "LocalRunner", "unknown": "x", "flag": True,
        }  # fmt: skip

    def test_from_a_dictionary(self):
        options = PipelineOptions.from_dictionary(
            {"runner": "LocalRunner", "streaming": True, "intervals": 3, "x": None}
        )
        assert options.view_as(StandardOptions).streaming is True
        assert options.view_as(EngineOptions).intervals == 3

    def test_an_option_that_there_is_not(self):
        with pytest.raises(AttributeError, match="no option 'nothing'"):
            _ = PipelineOptions([]).nothing

    def test_the_engine_gets_what_is_given(self, monkeypatch):
        monkeypatch.setenv("HEADRACE_CHECKPOINT", "by-environment")
        shown = []
        options = run_options(PipelineOptions(["--max_records_per_epoch=5"], progress=shown.append))
        assert (options.checkpoint, options.max_records_per_epoch) == ("by-environment", 5)
        assert run_options(PipelineOptions(["--checkpoint=by-flag"])).checkpoint == "by-flag"
        options.progress(1)
        assert shown == [1]

    def test_what_are_no_options(self):
        with pytest.raises(ValueError, match="options must be PipelineOptions"):
            beam.Pipeline(options={"runner": "LocalRunner"})
