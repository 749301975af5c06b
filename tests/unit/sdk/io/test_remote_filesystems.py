"""URLs of files: opened as they are written, and found under names that can be opened again."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import pytest
from pyarrow import fs

import headrace as beam
from headrace.sdk.io.files.filesystem import ReachError, absolute, filesystem_of
from headrace.sdk.io.files.output_files import Output
from headrace.sdk.io.remote_filesystems import prefix_of, remote_filesystem, url_of

NAMES = ["a b.csv", "100%.csv", "a%20b.csv", "ü.csv", "a[1].csv", "a#1.csv", "a?b.csv"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("pattern", "folder"),
    [
        ("gs://anonymous@bucket/folder/*", "bucket/folder"),
        ("abfss://data@account.dfs.core.windows.net/folder/*", "folder"),
        ("https://account.blob.core.windows.net/data/folder/*", "folder"),
    ],
)
def test_a_file_that_was_found_is_opened_under_its_name(name: str, pattern: str, folder: str) -> None:
    used = absolute(pattern)
    system, path = filesystem_of(pattern)
    assert path == f"{folder}/*"
    url = url_of(used, f"{folder}/{name}").replace("gs://", "gs://anonymous@")
    again, found = filesystem_of(url)
    assert found == f"{folder}/{name}"
    assert type(again) is type(system)


def test_onelake_is_reached_as_its_own_service() -> None:
    system, path = remote_filesystem("abfss://work@onelake.dfs.fabric.microsoft.com/lake.Lakehouse/Files/a", 60)
    assert isinstance(system, fs.SubTreeFileSystem)
    assert (system.base_path, path) == ("work/", "lake.Lakehouse/Files/a")
    settings = system.base_fs.__reduce__()[1][0]
    assert settings["account_name"] == "onelake"
    assert settings["blob_storage_authority"] == ".blob.fabric.microsoft.com"
    assert settings["dfs_storage_authority"] == ".dfs.fabric.microsoft.com"


@pytest.mark.parametrize("variable", ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"])
def test_files_in_azure_are_reached_with_the_key_of_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "a2V5")
    system, _ = remote_filesystem("abfss://data@account.dfs.core.windows.net/a", 60)
    settings = system.base_fs.__reduce__()[1][0]
    assert "a2V5" in (settings["account_key"], settings["sas_token"])


def test_the_namenode_stays_in_the_urls_of_what_is_found() -> None:
    for url in ("hdfs://name:8020/a/*.csv", "hdfs:///a/*.csv", "viewfs://cluster/a"):
        assert prefix_of(url) + "/a/1.csv" == url_of(url, "/a/1.csv")
    assert url_of("hdfs://name:8020/a/*.csv", "/a/1.csv") == "hdfs://name:8020/a/1.csv"


def test_a_sink_that_does_not_reach_its_place_shows_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://account.blob.core.windows.net/data/scores?sig=SECRET"

    def fail(output: Output, columns: Sequence[str] = ()) -> list[fs.FileInfo]:
        raise OSError(f"no connection for '{url}'")

    monkeypatch.setattr(Output, "delivered", fail)
    pipeline = beam.Pipeline("LocalRunner")
    _ = pipeline | beam.Create([1]) | beam.io.WriteToText(url)
    with pytest.raises(ReachError, match="data@account") as raised:
        pipeline.run()
    assert "SECRET" not in "".join(traceback.format_exception(raised.value))
