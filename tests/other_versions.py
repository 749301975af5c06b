"""Which tests need more than the oldest packages that the project takes (`./dev test --lowest`), and why."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import NamedTuple


class Need(NamedTuple):
    """What tests need."""

    package: str
    least: tuple[int, ...]
    """The oldest release with which they pass."""
    why: str
    tests: str
    """A pattern of the names of the tests."""


_BEAM = "apache-beam", (2, 77), "compares with the release of Beam that is pinned for development"
NEEDS = (
    Need(
        "pyarrow", (18,), "pyiceberg and deltalake need it", r"(?i)iceberg|delta/|delta_|test_tables_(survive|killed)"
    ),
    Need("pyarrow", (18,), "of pyiceberg and deltalake", r"test_a_page_is_true\[(kafka-to-lakehouse|change-streams)\]"),
    Need("pyarrow", (15,), "Parquet's checksums", r"test_damaged_contents.py::test_pages_of_parquet"),
    Need("pyarrow", (20,), "Arrow's files in Azure", r"io/test_remote_filesystems.py"),
    Need("confluent-kafka", (2, 16), "older clients wait without a word", r"TestOutage::test_the_only_broker_is_away"),
    Need("pandas", (2,), "the example and the benchmark count with pandas", r"(examples|benchmarks)/test_flights"),
    Need(*_BEAM, r"beam/test_renamed_files.py"),
    Need(*_BEAM, r"test_time.py::test_timestamps_of_other_fractions_of_a_second_as_in_beam"),
    Need(*_BEAM, r"test_stored_names.py::test_the_bytes_are_those_of_today"),
    Need(*_BEAM, r"test_options.py::test_the_defaults_of_options_without_effect_are_beams"),
    Need(*_BEAM, r"docs/test_beam_names.py"),
    Need(*_BEAM, r"beam/test_file_io.py::test_reads_as_beam"),
)


def lacking(test: str) -> str | None:
    """Why a test cannot pass with the packages that are here; None if it can."""
    for need in NEEDS:
        if re.search(need.tests, test) and _version(need.package) < need.least:
            least = ".".join(map(str, need.least))
            return f"{need.package} {least}: {need.why}"
    return None


def _version(package: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version(package))[:2])
