"""Programs with the transforms of sciencebeam_utils: CSV files by name of column, lists of files, steps that count."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
from conftest import Record
from sciencebeam_utils.beam_utils.csv import ReadDictCsv, WriteDictCsv
from sciencebeam_utils.beam_utils.files import DeferredFindFiles, DeferredReadFileList, FindFiles, ReadFileList
from sciencebeam_utils.beam_utils.utils import (
    GroupTransforms,
    MapOrLog,
    MapSpy,
    PreventFusion,
    TransformAndCount,
    TransformAndLog,
)


def test_csv_files(tmp_path: Path, record: Record) -> None:
    lines = "".join(f'{each},"name, {each}"\n' for each in range(30))
    (tmp_path / "people.csv").write_text(f"id,name\n{lines}", encoding="utf-8")
    with beam.Pipeline() as pipeline:
        people = pipeline | ReadDictCsv(str(tmp_path / "people.csv"))
        record("people", people)
        record("some", pipeline | "some" >> ReadDictCsv(str(tmp_path / "people.csv"), limit=5))
        even = people | beam.Filter(lambda person: int(person["id"]) % 2 == 0)
        _ = even | WriteDictCsv(str(tmp_path / "even"), ["name", "id"], file_name_suffix=".tsv")
    with beam.Pipeline() as pipeline:
        record("even", pipeline | ReadDictCsv(f"{tmp_path}/even*.tsv"))


def test_lists_of_files(tmp_path: Path, record: Record) -> None:
    for name in "abc":
        (tmp_path / f"{name}.xml").write_text(name, encoding="utf-8")
    (tmp_path / "list.tsv").write_text("url\n" + "".join(f"{name}.xml\n" for name in "abc"), encoding="utf-8")
    with beam.Pipeline() as pipeline:
        found = pipeline | FindFiles(str(tmp_path / "*.xml"))
        record("found", found | beam.Map(lambda path: Path(path).name))
        later = pipeline | "later" >> DeferredFindFiles(str(tmp_path / "*.xml"))
        record("later", later | "name" >> beam.Map(lambda path: Path(path).name))
        for name, kind in ("listed", ReadFileList), ("deferred", DeferredReadFileList):
            paths = pipeline | name >> kind(str(tmp_path / "list.tsv"), column="url")
            record(name, paths | f"name of {name}" >> beam.Map(lambda path: Path(path).name))


def test_steps_that_log_and_count(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        numbers = pipeline | beam.Create(range(20))
        whole = numbers | "Divide" >> MapOrLog(lambda number: 12 // (number % 5), error_count="errors")
        record("whole", whole)
        counted = whole | "Counted" >> TransformAndCount(beam.Map(lambda number: number + 1), "numbers")
        logged = counted | "Logged" >> TransformAndLog(beam.Map(str), log_prefix="number ")
        apart = logged | PreventFusion(key_fn=len) | "Spied" >> MapSpy(len)
        record("apart", apart)
        record("grouped", apart | GroupTransforms(lambda texts: texts | beam.combiners.Count.PerElement()))
