"""What the programs record, so that their outputs with the two runners can be compared."""

from __future__ import annotations

import pprint
from collections.abc import Callable, Iterator
from pathlib import Path

import apache_beam as beam
import pytest

Record = Callable[[str, beam.PCollection], None]


@pytest.fixture
def record(tmp_path: Path, record_property: Callable[[str, object], None]) -> Iterator[Record]:
    """A function that adds the elements of a collection to what is compared, sorted by their text.

    The fields of a dictionary are sorted, too: where a set gave them their order it is another in each process.
    """

    def record_elements(name: str, elements: beam.PCollection) -> None:
        texts = elements | f"text of {name}" >> beam.Map(pprint.pformat, width=10_000)
        texts | f"record {name}" >> beam.io.WriteToText(str(tmp_path / name))

    yield record_elements
    lines: dict[str, list[str]] = {}
    for file in tmp_path.glob("*-of-*"):
        lines.setdefault(file.name.partition("-")[0], []).extend(file.read_text(encoding="utf-8").splitlines())
    for name in sorted(lines):
        record_property(name, sorted(lines[name]))
