"""URLs as Arrow's file systems take them.

In URLs that programs give, `%20` stands for a space, as in any URL, but characters need not be quoted: a space,
brackets or the question mark of a pattern may stand as they are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import cast
from urllib.parse import quote, unquote

from pyarrow import fs

from headrace.lowlevel.storage.places import hidden

_OPTIONS = re.compile(r"\?(?=[A-Za-z_.]+=)")
"""The question mark before options of a file system; another one is a wildcard."""
_IN_PATH = "/%!$&'()*+,;=:@~"
"""Characters of paths that Arrow takes unquoted, and the mark of those that are quoted."""
_KEY = re.compile(r"://[^/@]+:[^/@]+@")
"""The credentials in a URL."""
HADOOP = "hdfs", "viewfs"
"""Schemes of Hadoop's file systems, whose host may be left out: Hadoop's own settings have it."""


def without_options(url: str) -> tuple[str, str]:
    """A URL without the options behind its question mark, and these.

    >>> without_options("s3://bucket/a?.csv?region=eu&scheme=http")
    ('s3://bucket/a?.csv', 'region=eu&scheme=http')
    """
    place, *options = _OPTIONS.split(url, maxsplit=1)
    return place, options[0] if options else ""


def without_keys(pattern: str) -> str:
    """A pattern or URL without credentials; question marks of it that are wildcards stay.

    >>> without_keys("s3://AKIA:wJalr@bucket/a?.csv?secret_key=wJalr")
    's3://…@bucket/a?.csv?secret_key=***'
    """
    place, options = without_options(pattern)
    return _KEY.sub("://…@", place) + (hidden(f"x://x?{options}").removeprefix("x://x") if options else "")


def arrow_filesystem(url: str, options: str = "") -> tuple[fs.FileSystem, str]:
    """The file system of a URL without options, and the path on it. Raises OSError or `pyarrow.ArrowException`.

    >>> arrow_filesystem("gs://anonymous@bucket/a b[1]")[1]
    'bucket/a b[1]'
    """
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    asked = f"?{quote(options, safe=f'{_IN_PATH}?')}" if options else ""
    if scheme in HADOOP:
        return _hadoop(f"{scheme}://{host or 'default'}/{asked}"), f"/{unquote(path)}"
    made = fs.FileSystem.from_uri(f"{scheme}://{host}{slash}{quote(path, safe=_IN_PATH)}{asked}")
    return cast("tuple[fs.FileSystem, str]", made)


@lru_cache(16)
def _hadoop(url: str) -> fs.FileSystem:
    # Arrow closes the connection with the last reference to the file system, whatever files are open.
    return fs.FileSystem.from_uri(url)[0]
