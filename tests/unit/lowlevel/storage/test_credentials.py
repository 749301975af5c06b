"""Keys in the URL of a checkpoint are shown to nobody: not in errors and their tracebacks, logs, options or reports."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as beam
from headrace.cli.app import app
from headrace.lowlevel import CheckpointView
from headrace.lowlevel.storage.object_store import ObjectStore, PlaceError, StoreError
from headrace.lowlevel.storage.places import hidden
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.ui.checkpoint_report import report_of

SECRET = "wJalrXUtnFEMI"
URLS = (
    f"ftp://AKIA:{SECRET}@bucket/prefix",
    f"ftp://AKIA:x/{SECRET}@bucket/prefix",
    f"http://user:{SECRET}@127.0.0.1:9/prefix",
    f"az://container/prefix?sv=2024&sig={SECRET}%3D",
    f"az://container/prefix?{SECRET}#{SECRET}",
)
"""Nothing answers at any of them."""


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")


@pytest.mark.parametrize("url", URLS)
def test_the_store_of_a_url_says_the_place_without_its_keys(url: str) -> None:
    with pytest.raises(StoreError) as raised:
        ObjectStore(url, patience=0.2).get("headrace")
    whole = "".join(traceback.format_exception(raised.value))
    assert SECRET not in whole
    assert "***" in str(raised.value)
    assert "prefix" in str(raised.value), "where it is can still be read"


def test_a_store_with_a_key_opens_the_same_place_elsewhere() -> None:
    url = f"s3://AKIA:{SECRET}@bucket/prefix"
    store = ObjectStore(url)
    assert store.describe() == "s3://***@bucket/prefix"
    assert pickle.loads(pickle.dumps(store)).__reduce__()[1][0] == url


def test_the_error_of_a_place_without_keys_keeps_what_the_store_said() -> None:
    with pytest.raises(PlaceError) as raised:
        ObjectStore("s3:///prefix")
    assert "Unrecognised" in str(raised.value.__cause__)


@pytest.mark.parametrize("url", URLS[:1] + URLS[3:4])
@pytest.mark.parametrize(
    "command", ["inspect {}", "plot {}", "explain {program} --checkpoint={}", "run {program} --checkpoint={}"]
)
def test_no_command_prints_a_key(
    url: str, command: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.lowlevel.storage.object_store.PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(ObjectStore.__init__, "__defaults__", (0.2, None))
    program = tmp_path_factory.mktemp("program") / "kept_secret.py"
    program.write_text(
        "import headrace as beam\ndef pipeline(p): p | beam.Create([('a', 1)]) | beam.CombinePerKey(sum)\n"
    )
    words = command.format(url, program=program).split()
    result = CliRunner().invoke(app, [*words, *(["--runner=LocalRunner"] if words[0] == "run" else [])])
    assert result.exit_code in (1, 2)
    assert SECRET not in result.output
    assert SECRET not in result.stderr
    assert "***" in result.stderr


def test_a_run_in_a_keyed_place_logs_reports_and_records_no_key(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url, kept = f"s3://AKIA:{SECRET}@bucket/prefix", ObjectStore("memory://")
    opened: Callable[[str, float, object], object] = lambda place, patience, keys: kept._created()  # noqa: E731  # one of two short ways to open
    monkeypatch.setattr("headrace.lowlevel.storage.object_store._opened", opened)
    with caplog.at_level(logging.DEBUG):
        pipeline = beam.Pipeline("LocalRunner", PipelineOptions([f"--checkpoint={url}"]), record=True)
        _ = pipeline | beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
        result = pipeline.run()
    report = report_of(CheckpointView.of(ObjectStore(url)), 10)
    told = [caplog.text, repr(report), result.recording.to_json(), repr(result), repr(pipeline.options)]
    assert [SECRET in text for text in told] == [False] * len(told)
    assert report.place == "s3://***@bucket/prefix"
    assert all(SECRET.encode() not in (kept.get(name) or b"") for name in kept.list("")), "nor does the checkpoint"


def test_options_are_shown_without_keys() -> None:
    url = f"https://account.blob.core.windows.net/there?sig={SECRET}"
    assert SECRET not in repr(PipelineOptions([f"--checkpoint={url}"]))
    assert SECRET not in repr(RunOptions(checkpoint=url, checkpoint_key=SECRET))


def test_what_carries_no_key_is_shown_as_it_is() -> None:
    for text in (
        "/folder/a@b?c=d",
        "s3://bucket/a@b/c;d=1",
        "http://[::1]:9000/a@b",
        "cannot read 's3://b/p': late",
        "see https://host:443/x, or (memory://).",
    ):
        assert hidden(text) == text


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize("hook", ["", "company.storage", "company.storage:keys()"])
def test_what_is_no_function_is_said_at_the_command_line(command: str, hook: str, tmp_path: Path) -> None:
    program = tmp_path / "with_wrong_keys.py"
    program.write_text("import headrace as beam\ndef pipeline(p): p | beam.Create([1])\n")
    result = CliRunner().invoke(app, [command, str(program), "--runner=LocalRunner", f"--credentials={hook}"])
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert f"credentials is {hook!r}; name a function by module:function" in result.output
