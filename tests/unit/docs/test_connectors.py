"""docs/connectors.md is run as a reader would run it, against a broker in this process."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from headrace.io import kafka_values
from headrace.sdk.io.kafka.value_formats import Place
from tests.schemaregistry import running

PAGE = Path(__file__).parents[3] / "docs" / "connectors.md"


def blocks() -> list[tuple[str, str]]:
    """Heading and code of every block of Python that can be run here."""
    page = re.sub(r"^<!-- not run: .*\n```python\n", "```\n", PAGE.read_text(), flags=re.MULTILINE)
    section = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = section.findall(page)
    assert len(found) == page.count("```python\n"), "a section has more than one"
    return found


def run(heading: str, monkeypatch: pytest.MonkeyPatch, **replaced: str) -> dict[str, object]:
    """Run a section's program on the local runner, with other places in it; what it defines."""
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
    code = dict(blocks())[heading]
    for there, here in replaced.items():
        assert there in code
        code = code.replace(there, here)
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_kafka(kafka, monkeypatch):
    kafka.send("clicks", [(0, b"a", b"1", 1000), (1, b"b", b"2", 2000), (0, b"a", b"3", 61_000), (2, b"a", b"4", 3000)])
    kafka.send("sums", [(0, None, b"before", 1)])
    run("Kafka", monkeypatch, **{"localhost:9092": kafka.servers})
    written = [row for row in kafka.rows("sums") if row[1] != b"before"]
    assert sorted(written) == [(b"a", b"3"), (b"a", b"5"), (b"b", b"2")]


def test_kafka_values_with_a_schema(kafka, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    order = {"title": "Order", "type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    kafka.send("totals", [(0, b"before", None, 1)])
    with running() as registry:
        writing, place = kafka_values.json(registry.config, order), Place("orders", "value")
        values = [writing.write({"product": "tea", "amount": amount}, place) for amount in (3, 4)]
        kafka.send("orders", [(0, None, value, 1000) for value in (*values, values[0][:5] + b'{"amount": "x"}')])
        places = {"localhost:9092": kafka.servers, "http://localhost:8081": registry.config["url"]}
        names = run("Kafka values with a schema", monkeypatch, **places)
        reading = kafka_values.avro(names["registry"])
        totals = [value for key, value in kafka.rows("totals") if key == b"tea"]
        assert [reading.read(value, Place("totals", "value")) for value in totals] == [{"product": "tea", "amount": 7}]
    assert "$.amount: 'x' is not of type 'integer'" in (tmp_path / "bad-00000-of-00001").read_text()


def test_a_function(monkeypatch):
    names = run("A function of yours", monkeypatch)
    assert names["totals"] == {"tea": 1, "coffee": 1}


def test_delta_lake(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run("Delta Lake", monkeypatch)
    totals = DeltaTable("lake/totals").to_pyarrow_table().to_pylist()
    assert sorted(row["total"] for row in totals) == [7, 20]


def test_iceberg(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = run("Iceberg", monkeypatch)
    totals = load_catalog(**names["CATALOG"]).load_table("shop.totals").scan().to_arrow().to_pylist()
    assert sorted(row["total"] for row in totals) == [7, 20]


def test_databases(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run("Databases", monkeypatch)
    assert sqlite3.connect("shop.db").execute("SELECT * FROM totals ORDER BY amount").fetchall() == [
        ("tea", 7),
        ("coffee", 20),
    ]


def test_load(monkeypatch):
    assert sorted(run("Load and impulses", monkeypatch)["seen"]) == sorted([*range(20), 0.0, 60.0, 120.0])


def test_lines_that_are_no_record(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = run("Files with lines that are no record", monkeypatch)
    assert [row.product for row in names["good"]] == ["tea"]
    assert [(line.line, line.text) for line, _ in names["bad"]] == [(2, '{"product": ')]


def test_names_and_formats(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run("Names and formats of your own", monkeypatch)
    names = ["coffee-00000-of-00001.txt", "tea-00000-of-00001.txt"]
    orders = tmp_path / "drinks/orders"
    assert sorted(path.name for path in orders.iterdir()) == names
    assert (orders / names[1]).read_text() == "tea 3\ntea 4\n"
    told = [line for path in tmp_path.glob("drinks/names*") for line in path.read_text().splitlines()]
    assert sorted(told) == names


def test_avro_files(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run("Avro files", monkeypatch)
    assert (tmp_path / "products-00000-of-00001").read_text() == "tea\ncoffee\n"


def test_parquet_in_folders(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run("Parquet in folders", monkeypatch)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert found == [
        "sales/day=2024-01-02/shop=7/part-00000-of-00001.parquet",
        "sales/day=2024-01-03/shop=__HIVE_DEFAULT_PARTITION__/part-00000-of-00001.parquet",
    ]


def test_folders_that_fill_up(monkeypatch):
    assert not run("Folders that fill up", monkeypatch)["records"].is_bounded


def test_files_by_window_and_pane(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run("Files by window and pane", monkeypatch)
    assert {path.name: path.read_text() for path in (tmp_path / "drinks").glob("*.txt")} == {
        "sums-19700101T000000Z-19700101T000100Z-0-000001-00000-of-00001.txt": "('tea', 2)\n",
        "sums-19700101T000100Z-19700101T000200Z-0-000001-00000-of-00001.txt": "('coffee', 1)\n",
    }
