"""Programs with the sink of array_record_beam_sdk."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from array_record.python.array_record_module import ArrayRecordReader
from array_record_beam_sdk.arrayrecordio import WriteToArrayRecord

RECORDS = [f"record {each}".encode() * (each % 4 + 1) for each in range(90)]


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_files(tmp_path: Path, shards: int, record_property: object) -> None:
    with beam.Pipeline() as pipeline:
        records = pipeline | beam.Create(RECORDS)
        records | WriteToArrayRecord(str(tmp_path / "out"), ".array_record", num_shards=shards)
    files = sorted(tmp_path.glob("out*"))
    assert len(files) == shards or not shards
    read = []
    for file in files:
        reader = ArrayRecordReader(str(file))
        read += reader.read(0, reader.num_records())
    assert sorted(read) == sorted(RECORDS)


def test_converted(tmp_path: Path) -> None:
    with beam.Pipeline() as pipeline:
        pipeline | beam.Create(RECORDS) | beam.io.WriteToTFRecord(str(tmp_path / "in"), num_shards=2)
    with beam.Pipeline() as pipeline:
        read = pipeline | beam.io.ReadFromTFRecord(str(tmp_path / "in*"))
        read | WriteToArrayRecord(str(tmp_path / "out"), num_shards=2)
    readers = [ArrayRecordReader(str(file)) for file in tmp_path.glob("out*")]
    assert sorted(each for reader in readers for each in reader.read(0, reader.num_records())) == sorted(RECORDS)
