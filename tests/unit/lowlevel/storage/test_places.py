"""Places by their spelling: which are directories, which URLs, and what is said of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel.storage.object_store import ObjectStore, PlaceError
from headrace.lowlevel.storage.places import SCHEMES, Use, refusal
from headrace.sdk.io.files.filesystem import absolute, filesystem_of

REFUSED = {
    "gs:/bucket/x": ("write gs://bucket/…, or ./gs:/bucket/x", "write gs://bucket/…, or ./gs:/bucket/x"),
    "s3:/bucket/x": ("lacks a slash: write s3://bucket/…", "lacks a slash: write s3://bucket/…"),
    "dbfs:/x": ("(/Volumes/… or /dbfs/…), or the URL", "(/Volumes/… or /dbfs/…), or the URL"),
    "dbfs://x": ("use the directory that Databricks has", "use the directory that Databricks has"),
    "hdfs:/x": ("write a directory that the driver and all", "write hdfs://bucket/…"),
    "hdfs://host/x": ("as hdfs:// is no place for that; use a directory that the driver and all executors", None),
    "viewfs://host/x": ("use a directory that", None),
    "s3a://bucket/x": (None, "as s3a:// is no place for that; use s3://bucket/…"),
    "s3n://bucket/x": ("use s3://bucket/…", "use s3://bucket/…"),
    "gcs://bucket/x": ("use gs://bucket/…", None),
    "az://container/x": (None, "use abfss://container@account.dfs.core.windows.net/…"),
    "wasbs://container@account/x": ("use abfss://", "use abfss://"),
    "ftp://host/x": ("s3://bucket/prefix, gs://bucket/prefix or az://container/prefix", "use a directory, s3://bucket"),
    "name:/x": ("or ./name:/x for a folder of that name", "or ./name:/x for a folder of that name"),
    "/data/x": (None, None),
    "a:b": (None, None),
    "./gs:/x": (None, None),
    "C:/x": (None, None),
    "file:/data": (None, None),
    "file:///data": (None, None),
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
