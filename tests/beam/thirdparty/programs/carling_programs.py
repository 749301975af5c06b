"""Programs with the transforms of carling: groups, categories, columns."""

from __future__ import annotations

import apache_beam as beam
import carling
from conftest import Record

PEOPLE = [
    {"name": f"n{each % 7}", "age": each % 5, "city": "abc"[each % 3], "none": None if each % 4 else each}
    for each in range(40)
]


def test_groups(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        pairs = pipeline | beam.Create([(1, "A"), (2, "B1"), (2, "B2"), (3, "C"), (3, "C"), (4, "A")])
        keys = [pipeline | f"keys {each}" >> beam.Create(range(each, 4)) for each in range(3)]
        record("unique", pairs | carling.UniqueOnly())
        record("single", pairs | carling.SingletonOnly())
        record("common", tuple(keys) | carling.Intersection())
        record("chosen", pairs | carling.FilterByKey(*keys[1:]))


def test_rows(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        people = pipeline | beam.Create(PEOPLE)
        kept = pipeline | "cities" >> beam.Create([{"city": "a"}, {"city": "c"}])
        record("side", people | carling.FilterByKeyUsingSideInput(kept, "city"))
        record(
            "most",
            people
            | carling.Project("name", "age")
            | beam.Distinct()
            | beam.Map(lambda pair: {"n": pair[0], "a": pair[1]})
            | carling.MaxSelectPerKey(["n"], lambda row: row["a"]),
        )
        parts = people | carling.PartitionRowsContainingNone()
        record("whole", parts[None])
        record("holes", parts["contains_none"])
        record(
            "text",
            people
            | carling.Select("name", "age")
            | carling.RenameFromTo({"age": "years"})
            | carling.Label(kind="p")
            | carling.Stringify(),
        )
        record("without", people | carling.Exclude("none") | carling.IndexBySingle("name"))


def test_differences(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        left = pipeline | "left" >> beam.Create([{"id": each, "value": each % 3, "list": [each]} for each in range(10)])
        right = pipeline | "right" >> beam.Create(
            [{"id": each, "value": each % 4, "list": [each, 1][: each % 5]} for each in range(2, 12)]
        )
        record("differences", (left, right) | carling.DifferencePerKey(["id"], ["value", "list"]))


def test_categories(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        people = pipeline | beam.Create(PEOPLE)
        known = pipeline | "known" >> beam.Create([("city", "a", 7), ("name", "n1", 3)])
        record("digested", people | carling.DigestCategoricalColumns(["name", "city"]))
        dictionaries = people | carling.CreateCategoricalDicts(["name", "city"], known)
        # Which new value gets which number depends on the order of a collection.
        record("numbers", dictionaries | beam.Map(lambda row: (row[0], row[2])))
        record("replaced", people | carling.ReplaceCategoricalColumns(["city"], known, default_unseen=-1))
