"""Places by their spelling: which are directories, which URLs, and what is said of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel.storage import places
from headrace.lowlevel.storage.object_store import ObjectStore, PlaceError
from headrace.lowlevel.storage.places import SCHEMES, Use, refusal, understood_place
from headrace.sdk.io.files.filesystem import ReachError, absolute, filesystem_of, reaching

REFUSED = {
    "gs:/bucket/x": ("write gs://bucket/…, or ./gs:/bucket/x", "write gs://bucket/…, or ./gs:/bucket/x"),
    "s3:/bucket/x": ("lacks a slash: write s3://bucket/…", "lacks a slash: write s3://bucket/…"),
    "s3a:/bucket/x": ("write s3://bucket/…", "write s3://bucket/…"),
    "abfss:/x": ("write abfss://container@account", "write abfss://container@account"),
    "dbfs:/x": ("use the URL of the storage behind it", "(/Volumes/… or /dbfs/…), or the URL"),
    "dbfs://x": ("use the URL of the storage behind it", "use the directory that Databricks has"),
    "hdfs:/x": ("write hdfs://namenode:8020/…", "write hdfs://namenode:8020/…"),
    "hdfs://host/x": (None, None),
    "viewfs://host/x": (None, None),
    "s3a://bucket/x": (None, None),
    "s3n://bucket/x": (None, None),
    "gcs://bucket/x": (None, None),
    "az://container/x": (None, "use abfss://container@account.dfs.core.windows.net/… (or set AZURE_STORAGE_ACCOUNT"),
    "adl://container/x": (None, "use abfss://container@account.dfs.core.windows.net/…"),
    "wasbs://container@account/x": ("use abfss://", "use abfss://"),
    "wasbs://container@account.blob.core.windows.net/x": (None, None),
    "abfss://container@account.dfs.core.windows.net/x": (None, None),
    "abfss://work@onelake.dfs.fabric.microsoft.com/lake.Lakehouse/Files/x": (None, None),
    "https://onelake.dfs.fabric.microsoft.com/work/lake.Lakehouse/Files/x": (None, None),
    "https://account.blob.core.windows.net/container/x": (None, None),
    "https://bucket.s3.eu-west-1.amazonaws.com/x": ("use s3://bucket/…, gs://bucket/… or", "use s3://bucket/…"),
    "http://host/x": ("as http:// is no place for that", "as http:// is no place for that"),
    "maprfs:///x": ("use the directory at which MapR", "use the directory at which MapR"),
    "oss://bucket/x": ("as oss:// is no place for that", "as oss:// is no place for that"),
    "ftp://host/x": ("s3://bucket/prefix, gs://bucket/prefix or az://container/prefix", "use a directory, s3://bucket"),
    "name:/x": ("or ./name:/x for a folder of that name", "or ./name:/x for a folder of that name"),
    "file://state/x": (
        "as state would be the name of a host; use state/x, or file:///state/x",
        "files cannot be at file://state/x, as state",
    ),
    "file://": ("names no folder; write file:///folder/…", "names no folder; write file:///folder/…"),
    "file:x": ("lacks two slashes: write file:///folder/…", "lacks two slashes: write file:///folder/…"),
    "s3:bucket/x": ("lacks two slashes: write s3://bucket/…, or ./s3:bucket/x", "or ./s3:bucket/x for a folder"),
    "DBFS:x": ("lacks two slashes: write dbfs:/…", "lacks two slashes: write dbfs:/…"),
    "memory:": ("lacks two slashes: write memory://", "lacks two slashes: write"),
    " s3://bucket/x": ("' s3://bucket/x' is no path, and does not begin with a scheme", "correct its start"),
    "'s3://bucket/x'": ("is no path, and does not begin with a scheme such as s3://", "correct its start"),
    "s3 ://bucket/x": ("is no path, and does not begin with a scheme such as s3://", "correct its start"),
    "s3\u200b://bucket/x": ("is no path, and does not begin with a scheme such as s3://", "correct its start"),
    "a b:c/x": (None, None),
    "./s3:bucket/x": (None, None),
    "/data/s3:/x": (None, None),
    "/data/x": (None, None),
    "/Volumes/a/b/c": (None, None),
    "a:b": (None, None),
    "./gs:/x": (None, None),
    "C:/x": (None, None),
    "file:/data": (None, None),
    "file:///data": (None, None),
    "file://localhost/data": (None, None),
    "memory://": (None, "files cannot be at memory://"),
}
"""Place -> what is said of it for checkpoints, and for files; None if it is taken."""


@pytest.mark.parametrize("place", REFUSED)
def test_spellings(place: str) -> None:
    for use, part in zip(Use, REFUSED[place], strict=True):
        found = refusal(place, use)
        assert found is None if part is None else found is not None and part in found


@pytest.mark.parametrize("place", [place for place, (checkpoint, files) in REFUSED.items() if checkpoint and files])
def test_nothing_is_made_of_that_name(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a checkpoint, a source or a sink."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlaceError):
        ObjectStore(place)
    for look in (filesystem_of, absolute):
        with pytest.raises(PlaceError):
            look(place)
    with pytest.raises(PlaceError):
        beam.io.WriteToText(place)
    assert not os.listdir(tmp_path)


ONE_PLACE = {
    ("s3://bucket/a", "s3a://bucket/a", "S3N://bucket/a"): "s3://bucket/a",
    ("gs://bucket/a", "gcs://bucket/a"): "gs://bucket/a",
    (
        "abfss://data@account.dfs.core.windows.net/a",
        "wasbs://data@account.blob.core.windows.net/a",
        "WASB://data@account.blob.core.windows.net/a",
        "https://account.blob.core.windows.net/data/a",
        "https://account.dfs.core.windows.net/data/a",
    ): "abfss://data@account.dfs.core.windows.net/a",
    (
        "https://onelake.dfs.fabric.microsoft.com/work/l.Lakehouse/Files/a",
        "https://onelake.blob.fabric.microsoft.com/work/l.Lakehouse/Files/a",
        "abfss://work@onelake.dfs.fabric.microsoft.com/l.Lakehouse/Files/a",
    ): "abfss://work@onelake.dfs.fabric.microsoft.com/l.Lakehouse/Files/a",
    ("/data/a", "file:/data/a", "file:///data/a", "FILE://localhost/data/a"): "/data/a",
}
"""Spellings of one place -> the spelling that is used."""


@pytest.mark.parametrize("spellings", ONE_PLACE)
def test_a_place_has_one_checkpoint_under_all_its_names(
    spellings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("headrace.lowlevel.storage.object_store._opened", lambda place, *_: opened.append(place))
    assert {ObjectStore(place).describe() for place in spellings} == {ONE_PLACE[spellings]}
    assert set(opened) <= {ONE_PLACE[spellings]}


@pytest.mark.parametrize("place", ["", ".", "..", "a/..", "~", "s3://bucket", "hdfs://host", "file:///data/."])
def test_files_are_not_written_beside_a_folder(place: str) -> None:
    """As names are put behind the text, those of `WriteToText(".")` would begin with the name of the folder."""
    with pytest.raises(ValueError, match=r"is a folder, and the files would be beside it; end it with / for"):
        beam.io.WriteToText(place)
    beam.io.WriteToText(f"{place or '.'}/")


@pytest.mark.parametrize(
    "place",
    ["s3:/AKIA:{}@b/a", "s3:AKIA:{}@b/a", " s3://AKIA:{}@b/a", "file://user:{}@b/a", "s3:/b/a?sig={}", "ftp://u:{}@b"],
)
def test_what_is_refused_is_shown_without_credentials(place: str) -> None:
    for use in Use:
        said = refusal(place.format("wJalrXUtnFEMI"), use)
        assert said is not None and "wJalr" not in said and "***" in said and "b" in said


def test_a_file_system_that_cannot_be_reached_is_shown_without_a_signature() -> None:
    signed = "https://a.blob.core.windows.net/c/a?.csv?sig=wJalrXUtnFEMI"
    said = r"/c/a\?.csv\?sig=\*\*\* cannot be listed: no 'https://a/c\?sig=\*\*\*'"
    with pytest.raises(ReachError, match=said) as raised, reaching(signed):
        raise OSError("no 'https://a/c?sig=wJalrXUtnFEMI'")
    assert raised.value.__cause__ is None, "the error of the file system shows it"


def test_azure_containers_for_files_are_of_the_account_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    for scheme in ("az", "azure", "adl"):
        assert absolute(f"{scheme}://container/a") == "abfss://container@account.dfs.core.windows.net/a"


@pytest.mark.parametrize("place", ["/Volumes/a/b/c", "/dbfs/state", "file:///Volumes/a", "/data/../dbfs/x"])
def test_the_mounts_of_databricks_are_for_files(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    assert refusal(place, Use.FILES) is None
    with pytest.raises(PlaceError, match=r"has no hard links, .* use the URL of the storage behind it"):
        ObjectStore(place)
    assert refusal("/Volumesque/a", Use.CHECKPOINT) is None


def test_the_file_system_of_databricks_is_its_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = ["/dbfs", "/Volumes"]
    monkeypatch.setattr(places.os.path, "isdir", lambda path: path in mounted)
    assert understood_place("dbfs:/tmp/a") == understood_place("dbfs:///tmp/a") == "/dbfs/tmp/a"
    assert understood_place("DBFS:/Volumes/main/a") == "/Volumes/main/a"
    assert "use the URL of the storage behind it" in str(refusal("dbfs:/tmp/a", Use.CHECKPOINT))
    mounted.remove("/dbfs")
    assert "use the directory that Databricks has for it" in str(refusal("dbfs:/tmp/a", Use.FILES))


def test_home_and_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for place, folder in {
        "~/x": "home/x",
        "./~/x": "~/x",
        "a:b": "a:b",
        "./gs:/x": "gs:/x",
        f"file:{tmp_path}/java": "java",
        f"file://{tmp_path}/a%20b": "a b",
    }.items():
        assert ObjectStore(place).describe() == str(tmp_path / folder)
        system, path = filesystem_of(place)
        assert (system.type_name, path) == ("local", str(tmp_path / folder))
        ObjectStore(place).put("a", b"1")
        assert (tmp_path / folder / "a").exists()


def test_credentials_are_hidden() -> None:
    said = refusal("wasbs://key:secret@account/x", Use.CHECKPOINT)
    assert said is not None and "secret" not in said


def test_each_scheme_says_what_to_use() -> None:
    for scheme in SCHEMES:
        for use in Use:
            if (said := refusal(f"{scheme}://x/y", use)) is not None:
                assert "; use " in said and f"use {scheme}://" not in said
