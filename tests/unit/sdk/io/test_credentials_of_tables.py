"""Credentials of a function of the program, in the names that the packages of tables have for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.lowlevel.storage import credentials
from headrace.lowlevel.storage.object_store import StoreError
from headrace.sdk.io.remote_filesystems import DELTALAKE, PYICEBERG, Names, table_options

GIVEN: dict[str, dict[str, str]] = {}
CONTAINER = "abfss://data@sales.dfs.core.windows.net"


def keys(place: str) -> dict[str, str]:
    return GIVEN[place]


@pytest.fixture(autouse=True)
def _hook() -> Iterator[None]:
    GIVEN.clear()
    credentials._shared.cache_clear()
    with credentials.using(f"{__name__}:keys"):
        yield
    credentials._shared.cache_clear()


@pytest.mark.parametrize(
    ("place", "given", "names", "expected"),
    [
        ("s3a://lake/t", {"access_key_id": "a", "secret_access_key": "b"}, DELTALAKE, "aws_access_key_id"),
        ("s3://lake/t", {"access_key_id": "a", "secret_access_key": "b", "token": "c"}, PYICEBERG, "s3.access-key-id"),
        (f"{CONTAINER}/t", {"sas_token": "sig=a"}, DELTALAKE, "azure_storage_sas_key"),
        ("wasbs://data@sales.blob.core.windows.net/t", {"token": "a"}, PYICEBERG, "adls.token"),
        ("gs://lake/t", {"token": "a"}, PYICEBERG, "gcs.oauth2.token"),
    ],
)
def test_fields_have_the_names_of_the_package(place: str, given: dict[str, str], names: Names, expected: str) -> None:
    GIVEN.update(dict.fromkeys(("s3://lake", "gs://lake", CONTAINER), given))
    options = table_options(place, names)
    assert list(options.values()) == list(given.values()) and next(iter(options)) == expected


def test_a_place_without_credentials_has_no_options() -> None:
    assert table_options("/lake/t", DELTALAKE) == table_options("", PYICEBERG) == {}


def test_what_the_package_cannot_take_is_said() -> None:
    with pytest.raises(StoreError, match=r"gs://lake/t cannot be opened with .*:keys gives, .*; give it a service acc"):
        table_options("gs://lake/t", DELTALAKE)


def test_a_function_that_fails_ends_the_epoch() -> None:
    with pytest.raises(StoreError, match=r"s3://lake cannot be had: .* KeyError.*\. Nothing of this epoch"):
        table_options("s3://lake/t", DELTALAKE)
