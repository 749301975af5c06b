"""File systems behind URLs, as Arrow has them: opened by URL, and the URLs of what is found there.

The part of a URL before the path on the file system is its prefix: prefix and path together are the URL of a file.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote

from pyarrow import fs

from headrace.lowlevel.storage.arrow_urls import HADOOP, arrow_filesystem, without_options
from headrace.lowlevel.storage.credentials import credentials_of, hook_in_use
from headrace.lowlevel.storage.places import AzurePlace
from headrace.sdk.io.renewed_filesystem import azure_container, renewed_filesystem

_AZURE_KEYS = "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"
"""Variables of obstore with the key of an account, or a signature."""


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
