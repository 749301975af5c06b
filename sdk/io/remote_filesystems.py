"""File systems behind URLs, as Arrow has them: opened by URL, and the URLs of what is found there.

The part of a URL before the path on the file system is its prefix: prefix and path together are the URL of a file.

Arrow's own file systems keep the keys with which they were made. Where a function of the program gives credentials,
each call has those of its time (`RenewedFiles`); an open file keeps its own, so keys must serve as long as an epoch.
The packages of tables take keys, in names of their own (`table_options`), when a table is opened, at least once an
epoch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.storage.arrow_urls import HADOOP, arrow_filesystem, without_options
from headrace.lowlevel.storage.credentials import (
    Credential,
    Credentials,
    HookError,
    credentials_of,
    hook_in_use,
    kind_of,
)
from headrace.lowlevel.storage.object_store import PlaceError, StoreError
from headrace.lowlevel.storage.places import AzurePlace, Use, understood_place

_AZURE_KEYS = "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"
"""Variables of obstore with the key of an account, or a signature."""
_FOR_AZURE = 20, 0
"""The first release of Arrow whose file system for Azure takes signatures."""


def remote_filesystem(url: str, patience: int) -> tuple[fs.FileSystem, str]:
    """The file system of a URL and the path on it.

    Args:
        url: The URL, as `understood_place` returns it.
        patience: Seconds for which a request is repeated (`gs://` only).

    Raises:
        OSError, pyarrow.ArrowException: The URL has no such file system, or it cannot be reached.

    >>> remote_filesystem("gs://anonymous@bucket/a b[1]", 60)[1]
    'bucket/a b[1]'
    """
    place, options = without_options(url)
    hook, azure = hook_in_use(), AzurePlace.of(place)
    if azure is not None and _version(pa.__version__) < _FOR_AZURE:
        raise PlaceError(
            f"files at {azure.url} need pyarrow {_FOR_AZURE[0]} or newer, and this is {pa.__version__}; install it, or "
            "read the files at a path at which the platform mounts them"
        )
    if hook is not None and credentials_of(place, hook) is not None:
        return renewed_filesystem(place, options, hook, patience)
    if azure is not None and not options:
        # The key or signature of the environment, with which obstore reaches checkpoints.
        key, *signatures = map(os.environ.get, _AZURE_KEYS)
        keys = key, next(filter(None, signatures), None)
        return azure_container(azure, *keys), unquote(azure.path)
    if place.startswith(("gs://", "gcs://")) and "retry_limit_seconds=" not in options:
        # The default limit is 15 minutes, without a message.
        options += f"{'&' if options else ''}retry_limit_seconds={patience}"
    return arrow_filesystem(place, options)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def prefix_of(url: str) -> str:
    """What of a URL stands before the path on its file system; empty for a path.

    >>> [prefix_of(url) for url in ("/data/a", "file:///a", "s3://bucket/a", "hdfs://name:8020/a")]
    ['', 'file://', 's3://', 'hdfs://name:8020']
    >>> prefix_of("abfss://data@sales.dfs.core.windows.net/2024/a")
    'abfss://data@sales.dfs.core.windows.net/'
    """
    scheme, mark, rest = without_options(url)[0].partition("://")
    if not mark:
        return ""
    host = rest.partition("/")[0]
    if AzurePlace.of(url) is not None:
        return f"{scheme}://{host}/"
    return f"{scheme}://{host}" if scheme in HADOOP else f"{scheme}://"


def url_of(url: str, path: str) -> str:
    """The URL, or for a path the path, of a file on the file system of another URL.

    >>> url_of("s3://bucket/a*", "bucket/100%.csv"), url_of("/data/a*", "/data/100%.csv")
    ('s3://bucket/100%25.csv', '/data/100%.csv')
    """
    prefix = prefix_of(url)
    return prefix + re.sub("[%?#]", lambda found: quote(found[0]), path) if prefix else path


class RenewedFiles(fs.FileSystemHandler):  # type: ignore[misc]  # Arrow has no types
    """The file system of a bucket or container.

    It is pickled without credentials: another process asks its own function.

    Args:
        url: URL of the bucket or container, without options.
        options: Options behind the question mark of the URL.
        hook: Import path of the function.
        patience: Seconds for which a request is repeated (`gs://` only).
    """

    def __init__(self, url: str, options: str, hook: str, patience: int) -> None:
        self._told = (url, options, hook, patience)
        credentials = credentials_of(url, hook)
        assert credentials is not None, "only such places are opened here"
        self._credentials = credentials
        self._opened: tuple[Credential, fs.FileSystem] | None = None

    def __reduce__(self) -> tuple[type[RenewedFiles], tuple[str, str, str, int]]:
        return type(self), self._told

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RenewedFiles) and self._told == other._told

    def __hash__(self) -> int:
        return hash(self._told)

    def _files(self) -> fs.FileSystem:
        credential = _current(self._credentials)
        opened = self._opened
        if opened is None or opened[0] is not credential:
            url, options, _, patience = self._told
            opened = self._opened = credential, _MAKERS[kind_of(url)](url, options, credential, patience)
        return opened[1]

    def get_type_name(self) -> str:
        """See `pyarrow.fs.FileSystemHandler`."""
        return kind_of(self._told[0])

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """See `pyarrow.fs.FileSystemHandler`."""
        return cast("list[fs.FileInfo]", self._files().get_file_info(paths))

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """See `pyarrow.fs.FileSystemHandler`."""
        return cast("list[fs.FileInfo]", self._files().get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        """See `pyarrow.fs.FileSystemHandler`."""
        self._files().create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        """See `pyarrow.fs.FileSystemHandler`."""
        self._files().delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """See `pyarrow.fs.FileSystemHandler`."""
        self._files().delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        """See `pyarrow.fs.FileSystemHandler`."""
        self._files().delete_dir_contents("/", accept_root_dir=True)

    def delete_file(self, path: str) -> None:
        """See `pyarrow.fs.FileSystemHandler`."""
        self._files().delete_file(path)

    def move(self, src: str, dest: str) -> None:
        """See `pyarrow.fs.FileSystemHandler`."""
        self._files().move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        """See `pyarrow.fs.FileSystemHandler`."""
        self._files().copy_file(src, dest)

    def open_input_stream(self, path: str) -> Any:
        """See `pyarrow.fs.FileSystemHandler`."""
        return self._files().open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> Any:
        """See `pyarrow.fs.FileSystemHandler`."""
        return self._files().open_input_file(path)

    def open_output_stream(self, path: str, metadata: object) -> Any:
        """See `pyarrow.fs.FileSystemHandler`."""
        return self._files().open_output_stream(path, compression=None, metadata=metadata)

    def open_append_stream(self, path: str, metadata: object) -> Any:
        """See `pyarrow.fs.FileSystemHandler`."""
        return self._files().open_append_stream(path, compression=None, metadata=metadata)

    def normalize_path(self, path: str) -> str:
        """See `pyarrow.fs.FileSystemHandler`."""
        return path


def renewed_filesystem(url: str, options: str, hook: str, patience: int) -> tuple[fs.FileSystem, str]:
    """The file system of a URL and the path on it, with credentials of the function of the import path."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    files = fs.PyFileSystem(RenewedFiles(f"{scheme}://{host}", options, hook, patience))
    return files, unquote(path if kind_of(url) == "azure" else f"{host}/{path}".rstrip("/"))


def _s3(url: str, options: str, credential: Credential, patience: int) -> fs.FileSystem:
    given = dict(parse_qsl(options))
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_override" not in given:
        scheme, _, host = endpoint.rpartition("://")
        given |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if "region" not in given:
        given["region"] = region or ("us-east-1" if "endpoint_override" in given else fs.resolve_s3_region(url[5:]))
    keys = credential.fields
    return fs.S3FileSystem(
        access_key=keys["access_key_id"],
        secret_key=keys["secret_access_key"],
        session_token=keys.get("token"),
        **given,
    )


def _gs(url: str, options: str, credential: Credential, patience: int) -> fs.FileSystem:
    given = {name: value for name, value in parse_qsl(options) if name != "retry_limit_seconds"}
    # Arrow wants an end; a token without one is asked for once.
    ends = credential.expires_at or credential.received_at + timedelta(days=3650)
    return fs.GcsFileSystem(
        access_token=credential.fields["token"],
        credential_token_expiration=ends,
        retry_time_limit=timedelta(seconds=patience),
        **given,
    )


def _azure(url: str, options: str, credential: Credential, patience: int) -> fs.FileSystem:
    if "token" in credential.fields:
        raise PlaceError(
            f"files at {url} cannot be reached with a token, which Arrow does not take for Azure; return an access_key "
            "or a sas_token for it, or read the files at a path at which the platform mounts them"
        )
    place = AzurePlace.of(f"{url}/")
    if place is None:
        raise PlaceError(f"{url} does not name its account; write abfss://container@account.dfs.core.windows.net")
    return azure_container(place, credential.fields.get("access_key"), credential.fields.get("sas_token"))


def azure_container(place: AzurePlace, key: str | None, signature: str | None) -> fs.FileSystem:
    """The container of a place, as a file system whose root it is."""
    zone, _, service = place.domain.partition("dfs.")
    account = fs.AzureFileSystem(
        place.account,
        account_key=key,
        sas_token=None if key else signature,
        blob_storage_authority=f".{zone}blob.{service}",
        dfs_storage_authority=f".{zone}dfs.{service}",
    )
    return fs.SubTreeFileSystem(unquote(place.container), account)


_MAKERS: dict[str, Callable[[str, str, Credential, int], fs.FileSystem]] = {"s3": _s3, "gs": _gs, "azure": _azure}


Names = Mapping[str, Mapping[str, str]]
"""Kind of store -> field of a credential -> the package's name for it."""
DELTALAKE: Names = {
    "s3": {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "token": "aws_session_token",
    },
    "azure": {
        "access_key": "azure_storage_account_key",
        "sas_token": "azure_storage_sas_key",
        "token": "azure_storage_token",
    },
}
PYICEBERG: Names = {
    "s3": {
        "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key",
        "token": "s3.session-token",
    },
    "gs": {"token": "gcs.oauth2.token"},
    "azure": {"access_key": "adls.account-key", "sas_token": "adls.sas-token", "token": "adls.token"},
}


def table_options(place: str, names: Names) -> dict[str, str]:
    """The options with which a package reaches a place now; empty for one without a function of the program.

    Raises:
        StoreError: The function failed, or the package takes no credentials that it can give.
    """
    url = understood_place(place, Use.FILES)
    credentials = credentials_of(url, hook_in_use())
    if credentials is None:
        return {}
    if (known := names.get(kind_of(url))) is None:
        raise StoreError(
            f"{place} cannot be opened with the credentials that {credentials.hook} gives, as the package of the "
            "table takes no token for such a store; give it a service account, as storage_options"
        )
    return {known[name]: value for name, value in _current(credentials).fields.items()}


def _current(credentials: Credentials) -> Credential:
    """The credentials of this moment. Raises `StoreError` if the function gives none."""
    try:
        return credentials.current()
    except HookError as error:
        raise StoreError(f"{error}. Nothing of this epoch is committed; start again when it is mended") from None
