"""Reading files."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.parity.corpus import program

_folder = TemporaryDirectory(prefix="headrace-parity-")


@cache
def data() -> Path:
    """A folder of small files."""
    folder = Path(_folder.name)
    (folder / "lines.txt").write_text("# one\nto be\n\nor not  \n  to be")
    (folder / "more.txt").write_text("# two\nthat is\r\nthe question\n")
    (folder / "packed.txt.gz").write_bytes(gzip.compress(b"whether\n'tis nobler\n"))
    (folder / "empty.text").write_text("")
    (folder / "rows.json").write_text('{"city": "Rome", "seen": 3}\n{"city": "\\u00c5rhus", "seen": 4}\n')
    (folder / "rows.csv").write_text('city,seen\nRome,3\n"Paris, Texas",4\n')
    return folder


@program
def read_lines(beam, p):
    return p | beam.io.ReadFromText(str(data() / "lines.txt"))


@program
def read_lines_of_many_files(beam, p):
    return p | beam.io.ReadFromText(str(data() / "*.txt")) | beam.combiners.Count.PerElement()


@program
def read_lines_without_headers(beam, p):
    return p | beam.io.ReadFromText(str(data() / "*.txt"), skip_header_lines=1)


@program
def read_lines_with_their_ends(beam, p):
    return p | beam.io.ReadFromText(str(data() / "lines.txt"), strip_trailing_newlines=False)


@program
def read_packed_lines(beam, p):
    return p | beam.io.ReadFromText(str(data() / "packed.txt.gz"))


@program
def read_an_empty_file(beam, p):
    return p | beam.io.ReadFromText(str(data() / "empty.text"))


@program
def read_json(beam, p):
    return p | beam.io.ReadFromJson(str(data() / "rows.json")) | beam.Map(lambda row: (row.city, int(row.seen)))


@program
def read_csv(beam, p):
    return p | beam.io.ReadFromCsv(str(data() / "rows.csv")) | beam.Map(lambda row: (row.city, int(row.seen)))
