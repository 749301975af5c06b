"""Tables of Delta and Iceberg in a store whose keys are renewed while a run writes and reads them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as beam
from headrace.io.delta import ReadFromDelta, WriteToDelta
from headrace.io.iceberg import ReadFromIceberg, WriteToIceberg
from headrace.options.pipeline_options import PipelineOptions
from headrace.testing.util import assert_that, equal_to
from tests.s3 import S3

HOOK = "tests.rotating_keys:keys"
LIFE = 2.5
"""Seconds; the packages keep the keys with which they have opened a table."""
ROWS = [{"number": number} for number in range(40)]
SCHEMA = pa.schema({"number": pa.int64()})


def slowly(row: dict[str, int]) -> dict[str, int]:
    time.sleep(0.15)
    return row


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_keys_are_renewed_in_mid_run(kind: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    place = s3.new_place()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": place}
    catalog |= {"s3.endpoint": s3.url, "s3.region": "us-east-1"}
    if kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        load_catalog(**catalog).create_namespace("shop")
    s3.ask_for_keys(LIFE)
    sinks: dict[str, Any] = {
        "delta": lambda: WriteToDelta(f"{place}/table", SCHEMA),
        "iceberg": lambda: WriteToIceberg("shop.sales", SCHEMA, catalog_properties=catalog),
    }
    sources: dict[str, Any] = {
        "delta": lambda: ReadFromDelta(f"{place}/table"),
        "iceberg": lambda: ReadFromIceberg("shop.sales", catalog_properties=catalog),
    }
    options = PipelineOptions([f"--checkpoint={place}/state", f"--credentials={HOOK}", "--max_records_per_epoch=5"])
    with beam.Pipeline("LocalRunner", options) as pipeline:
        _ = pipeline | beam.Create(ROWS) | beam.Map(slowly) | sinks[kind]()
    time.sleep(LIFE)
    with beam.Pipeline("LocalRunner", argv=[f"--credentials={HOOK}"]) as pipeline:
        assert_that(pipeline | sources[kind](), equal_to(ROWS))
    issued, refused = s3.key_use()
    assert issued[str(os.getpid())] >= 3 and refused == 0
