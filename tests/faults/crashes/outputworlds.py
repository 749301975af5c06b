"""Files and topics that runs append to, for tests that crash inside the writing: beside the tables of `tableworlds`."""

from __future__ import annotations

import gzip
import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import headrace as beam
from headrace.transforms.window import FixedWindows
from tests.faults.crashes.tableworlds import COLUMNS, Places

Row = tuple[str, int]


class FilesWorld(ABC):
    """Files in a folder; each file that a task writes and each delivery is a place."""

    name: str
    connector: str

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        from headrace.sdk.io.files import file_sink
        from headrace.sdk.io.files.file_sink import EpochFileSink

        self._folder, self.places = folder / self.name, places
        places.around(monkeypatch, EpochFileSink, "write_part")
        places.around(monkeypatch, EpochFileSink, "_move")
        places.around(monkeypatch, file_sink, "show_committed")

    def clear(self) -> None:
        """An empty folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()

    def rows(self, mode: str) -> Counter[Row]:
        """What readers of the folder find."""
        shown = (path for path in self._folder.rglob("*") if path.is_file())
        return Counter(row for path in shown if "_unfinished" not in path.parts for row in self.read(path))

    @abstractmethod
    def writing(self, mode: str) -> beam.PTransform:
        """The sink."""

    @abstractmethod
    def read(self, path: Path) -> Iterable[Row]:
        """The rows of a file."""


class TextWorld(FilesWorld):
    """Lines, which are shown when the input has ended."""

    name, connector = "text", "WriteToText"

    def writing(self, mode: str) -> beam.PTransform:
        return beam.Map(json.dumps) | beam.io.WriteToText(self._folder / "rows")

    def read(self, path: Path) -> Iterable[Row]:
        return [_pair(json.loads(line)) for line in path.read_text().splitlines()]


class JsonWorld(FilesWorld):
    """Objects, compressed, which are added to those of other runs with each epoch."""

    name, connector = "json", "WriteToJson"

    def writing(self, mode: str) -> beam.PTransform:
        options = {"file_name_suffix": ".json.gz", "if_exists": "append"}
        return beam.Map(_named) | beam.io.WriteToJson(self._folder / "rows", **options)

    def read(self, path: Path) -> Iterable[Row]:
        return [_fields(json.loads(line)) for line in gzip.decompress(path.read_bytes()).splitlines()]


class CsvWorld(FilesWorld):
    """Lines with a header, a file for each window."""

    name, connector = "csv", "WriteToCsv"

    def writing(self, mode: str) -> beam.PTransform:
        timed = beam.Map(lambda row: beam.window.TimestampedValue(_named(row), row[1]))
        return timed | beam.WindowInto(FixedWindows(10)) | beam.io.WriteToCsv(self._folder / "rows")

    def read(self, path: Path) -> Iterable[Row]:
        return map(_fields, pa.csv.read_csv(path).to_pylist())


class ParquetWorld(FilesWorld):
    """Rows in folders that are named by one of their columns."""

    name, connector = "parquet", "WriteToParquet"

    def writing(self, mode: str) -> beam.PTransform:
        return beam.Map(_named) | beam.io.WriteToParquet(self._folder / "rows", partition_by=["name"])

    def read(self, path: Path) -> Iterable[Row]:
        name = path.parent.name.removeprefix("name=")
        return [(name, row["amount"]) for row in pa.parquet.ParquetFile(path).read().to_pylist()]


class AvroWorld(FilesWorld):
    """Records, which are shown when the input has ended."""

    name, connector = "avro", "WriteToAvro"

    def writing(self, mode: str) -> beam.PTransform:
        fields = [{"name": name, "type": kind} for name, kind in zip(COLUMNS, ["string", "long"], strict=True)]
        schema = {"type": "record", "name": "Row", "fields": fields}
        return beam.Map(_named) | beam.io.WriteToAvro(self._folder / "rows", schema)

    def read(self, path: Path) -> Iterable[Row]:
        import fastavro

        with path.open("rb") as file:
            return [_fields(record) for record in fastavro.reader(file)]


class KafkaWorld:
    """A topic of the broker whose address the file `address` in the world's folder has.

    The broker shows what aborted transactions have sent, which Kafka hides, so no place is inside of a transaction.
    """

    name, connector = "kafka", "WriteToKafka"

    def __init__(self, folder: Path, places: Places, monkeypatch: Any) -> None:
        from headrace.sdk.io.kafka.sink import KafkaSink

        self._folder, self.places = folder, places
        places.around(monkeypatch, KafkaSink, "_open")
        places.around(monkeypatch, KafkaSink, "_send")

    def clear(self) -> None:
        """A topic that no run has written to."""
        number = len(list(self._folder.glob("topic-*")))
        (self._folder / f"topic-{number}").touch()
        self._broker.send(self._topic, [(0, b"before", b"0", 1)])

    @property
    def _broker(self) -> Any:
        from tests.kafkacluster import Cluster

        return Cluster((self._folder / "address").read_text())

    @property
    def _topic(self) -> str:
        number = len(list(self._folder.glob("topic-*")))
        return f"{blake2b(str(self._folder).encode(), digest_size=8).hexdigest()}-{number}"

    def writing(self, mode: str) -> beam.PTransform:
        from headrace.io.kafka import WriteToKafka

        texts = beam.MapTuple(lambda name, amount: (name, str(amount)))
        return texts | WriteToKafka({**self._broker.config, "transactional.id": self._topic}, self._topic)

    def rows(self, mode: str) -> Counter[Row]:
        """What readers of the topic find."""
        found = self._broker.rows(self._topic)
        return Counter((key.decode(), int(value)) for key, value in found if key != b"before")


def _named(row: Row) -> dict[str, object]:
    return dict(zip(COLUMNS, row, strict=True))


def _fields(row: dict[str, Any]) -> Row:
    return row["name"], row["amount"]


def _pair(row: list[Any]) -> Row:
    return row[0], row[1]


OUTPUTS: dict[str, Callable[[Path, Places, Any], Any]] = {
    "avro": AvroWorld,
    "csv": CsvWorld,
    "json": JsonWorld,
    "kafka": KafkaWorld,
    "parquet": ParquetWorld,
    "text": TextWorld,
}
