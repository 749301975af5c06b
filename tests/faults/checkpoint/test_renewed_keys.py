"""Runs that last for several lives of their keys: the server refuses keys that are over, and nothing is lost."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as beam
from headrace.cli.app import app
from headrace.lowlevel import StepError
from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.storage import credentials
from headrace.lowlevel.storage.object_store import ObjectStore, StoreError
from headrace.options.pipeline_options import PipelineOptions
from headrace.testing.util import assert_that, equal_to
from tests.rotating_keys import BROKEN
from tests.s3 import S3

HOOK = "tests.rotating_keys:keys"
LIFE = 1.2
"""Seconds."""
NUMBERS = range(40)
PROGRAM = "import headrace as beam\ndef pipeline(p): p | beam.Create([('a', 1)]) | beam.CombinePerKey(sum)\n"


@pytest.fixture(autouse=True)
def _fresh(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_PAUSE", timedelta(milliseconds=50))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)


def slowly(number: int) -> int:
    time.sleep(0.1)
    return number


def run(place: str) -> None:
    options = PipelineOptions([f"--checkpoint={place}/state", f"--credentials={HOOK}", "--max_records_per_epoch=5"])
    with beam.Pipeline("LocalRunner", options) as pipeline:
        numbers = pipeline | beam.Create(NUMBERS) | beam.Map(slowly)
        _ = numbers | beam.Map(lambda n: (n % 2, n)) | beam.CombinePerKey(sum) | beam.io.WriteToText(f"{place}/sums")


def check_sums(place: str) -> None:
    with beam.Pipeline("LocalRunner", argv=[f"--credentials={HOOK}"]) as pipeline:
        lines = pipeline | beam.io.ReadFromText(f"{place}/sums*")
        assert_that(lines, equal_to([str((n % 2, sum(NUMBERS[n::2]))) for n in (0, 1)]))


def test_keys_are_renewed_in_mid_run(s3: S3) -> None:
    place = s3.new_place()
    s3.ask_for_keys(LIFE)
    run(place)
    check_sums(place)
    issued, refused = s3.key_use()
    assert issued[str(os.getpid())] >= 4 and refused == 0


@pytest.mark.parametrize("command", ["inspect {}", "explain {program} --checkpoint={}"])
def test_commands_ask_the_function_of_the_variable_and_show_no_key(
    command: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, program = s3.new_place(), tmp_path / "summing.py"
    program.write_text(PROGRAM)
    monkeypatch.setenv("HEADRACE_CREDENTIALS", HOOK)
    s3.ask_for_keys(60)
    with beam.Pipeline("LocalRunner", argv=[f"--checkpoint={place}"]) as pipeline:
        _ = pipeline | beam.Create([("a", 1)]) | beam.CombinePerKey(sum)
    result = CliRunner().invoke(app, command.format(place, program=program).split())
    assert result.exit_code == 0, result.stderr
    assert "Sum" in result.output or "CombinePerKey" in result.output
    for secret in ("secret-KEY", "token-KEY"):
        assert secret not in result.output + result.stderr
    assert s3.key_use()[1] == 0


def test_a_function_that_fails_ends_the_run_and_nothing_is_lost(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place, broken = s3.new_place(), tmp_path / "broken"
    monkeypatch.setenv(BROKEN, str(broken))
    s3.ask_for_keys(LIFE)
    ran: list[int] = []

    def breaking(number: int) -> int:
        ran.append(number)
        if number == 12 and len(ran) <= len(NUMBERS):
            broken.touch()
        return number

    def attempt() -> None:
        options = PipelineOptions([f"--checkpoint={place}/state", f"--credentials={HOOK}", "--max_records_per_epoch=5"])
        with beam.Pipeline("LocalRunner", options) as pipeline:
            numbers = pipeline | beam.Create(NUMBERS) | beam.Map(breaking) | beam.Map(slowly)
            _ = (
                numbers
                | beam.Map(lambda n: (n % 2, n))
                | beam.CombinePerKey(sum)
                | beam.io.WriteToText(f"{place}/sums")
            )

    with pytest.raises((StoreError, StepError)) as raised:
        attempt()
    said = f"{raised.value} {raised.value.__cause__}"
    assert f"cannot be had: {HOOK} raised RuntimeError" in said and place[:13] in said
    assert "start again when it is mended" in said
    broken.unlink()
    view = CheckpointView.of(ObjectStore(f"{place}/state", hook=HOOK))
    assert view.manifest is not None and view.manifest.epoch >= 2
    ran.extend(NUMBERS)
    attempt()
    check_sums(place)
    for text in (said, caplog.text):
        assert "vault-password" not in text and "secret-KEY" not in text and "token-KEY" not in text
    stored = ObjectStore(f"{place}/state", hook=HOOK)
    assert not any(b"secret-KEY" in (stored.get(name) or b"") for name in stored.list(""))
