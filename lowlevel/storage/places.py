"""Places that programs name, for checkpoints, sources and sinks: directories, and URLs by their schemes.

One table, `SCHEMES`, says for each scheme what it can be used for, which spellings are taken for another one, and what
to write instead of the others. A directory begins at `~` for the home of the user, and is a path else; text such as
`gs:/bucket` is neither a URL nor a directory, but a URL that lost a slash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Use(Enum):
    """What a place is for."""

    CHECKPOINT = "a checkpoint"
    FILES = "files"


class Scheme(NamedTuple):
    """What can be at URLs of a scheme."""

    shown: str
    """A URL of the scheme, as the documentation shows it."""
    uses: frozenset[Use]
    """What the URLs are used for as they are written."""
    instead: str = ""
    """What to write for the other uses; empty for what `_INSTEAD` has."""
    taken_as: str = ""
    """Another spelling that is used for the other uses, as the documentation shows it; empty if there is none."""
    other: Callable[[str], str | None] | None = None
    """Makes that spelling; None for a place that has none, which is refused."""
    only_files: str = ""
    """What to write for a checkpoint, if the other spelling is for files only; empty if it is for both."""

    def answer(self, use: Use) -> str:
        """How the documentation says what becomes of the URLs."""
        if use in self.uses:
            return "yes"
        if self.taken_as and not (self.only_files and use is Use.CHECKPOINT):
            return f"as {self.taken_as}"
        return f"no: {self.better(use)}"

    def better(self, use: Use) -> str:
        """What to write in place of such a URL."""
        return (self.only_files if use is Use.CHECKPOINT else "") or self.instead or _INSTEAD[use]


class AzurePlace(NamedTuple):
    """The parts of a URL of Azure's storage."""

    container: str
    """Name of the container, in OneLake of the workspace."""
    account: str
    domain: str
    """Of the service `dfs`, such as `dfs.core.windows.net`."""
    path: str
    """Path in the container, without a slash at its start, as it is in the URL: quoted."""

    @property
    def url(self) -> str:
        """The URL that Azure's own driver for Hadoop has for the place."""
        return f"abfss://{self.container}@{self.account}.{self.domain}/{self.path}"

    @classmethod
    def of(cls, place: str) -> AzurePlace | None:
        """The parts of `abfss://container@account…/path`, also of `wasbs://`, or of `https://account…/container/path`.

        None for another URL, such as `abfss://container/path`.

        >>> AzurePlace.of("wasbs://data@sales.blob.core.windows.net/2024/a%20b").url
        'abfss://data@sales.dfs.core.windows.net/2024/a%20b'
        >>> AzurePlace.of("https://onelake.dfs.fabric.microsoft.com/shop/lake.Lakehouse/Files/a").url
        'abfss://shop@onelake.dfs.fabric.microsoft.com/lake.Lakehouse/Files/a'
        """
        scheme, _, rest = place.partition("://")
        authority, _, path = rest.partition("/")
        container, at, host = authority.rpartition("@")
        if not at and scheme.lower() in ("http", "https"):
            container, _, path = path.partition("/")
        account, _, domain = host.partition(".")
        if not (container and ":" not in container and account and domain.lower().endswith(_AZURE_DOMAINS)):
            return None
        return cls(container, account, re.sub(r"^(z\d+\.)?blob\.", r"\1dfs.", domain.lower()), path)


_AZURE_DOMAINS = (".core.windows.net", ".storage.azure.net", ".fabric.microsoft.com", ".core.chinacloudapi.cn")
_AZURE_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_DATABRICKS_VARIABLE = "DATABRICKS_RUNTIME_VERSION"
"""Set in each process of a cluster of Databricks."""
_MOUNTS = "/Volumes", "/dbfs"
"""Folders in which Databricks shows stores by FUSE."""


def _renamed(scheme: str) -> Callable[[str], str]:
    return lambda place: f"{scheme}://{place.partition('://')[2]}"


def _azure(place: str) -> str | None:
    found = AzurePlace.of(place)
    return None if found is None else found.url


def _azure_of_container(place: str) -> str | None:
    """The full URL of `az://container/path`, if the environment names the account."""
    container, _, path = place.partition("://")[2].partition("/")
    account = os.environ.get(_AZURE_ACCOUNT)
    return AzurePlace(container, account, "dfs.core.windows.net", path).url if account and container else None


def _mounted(place: str) -> str | None:
    """The path at which Databricks mounts `dbfs:/path`, on a cluster that has the mount."""
    path = re.sub(r"^dbfs:/+", "/", place, flags=re.IGNORECASE)
    path = path if path.startswith("/Volumes/") else f"/dbfs{path}"
    return path if os.path.isdir(f"/{path.split('/')[1]}") else None


_BOTH, _NEITHER = frozenset(Use), frozenset[Use]()
_CHECKPOINTS, _FILES = frozenset({Use.CHECKPOINT}), frozenset({Use.FILES})
_INSTEAD = {
    Use.CHECKPOINT: "a directory that the driver and all executors share, s3://bucket/prefix, gs://bucket/prefix or "
    "az://container/prefix",
    Use.FILES: "a directory, s3://bucket/…, gs://bucket/… or abfss://container@account.dfs.core.windows.net/…",
}
_AZURE = "abfss://container@account.dfs.core.windows.net/…"
_CONTAINER = f"{_AZURE} (or set {_AZURE_ACCOUNT})"
_BEHIND = "the URL of the storage behind it (s3://…, abfss://… or gs://…)"
_DATABRICKS = f"the directory that Databricks has for it (/Volumes/… or /dbfs/…), or {_BEHIND}"
_S3 = "s3://bucket/…"
SCHEMES = {
    "file": Scheme("file:///folder/…", _BOTH),
    "memory": Scheme("memory://", _CHECKPOINTS),
    "s3": Scheme(_S3, _BOTH),
    "s3a": Scheme("s3a://bucket/…", _NEITHER, _S3, _S3, _renamed("s3")),
    "s3n": Scheme("s3n://bucket/…", _NEITHER, _S3, _S3, _renamed("s3")),
    "gs": Scheme("gs://bucket/…", _BOTH),
    "gcs": Scheme("gcs://bucket/…", _FILES, "gs://bucket/…", "gs://bucket/…", _renamed("gs")),
    "abfss": Scheme(_AZURE, _BOTH),
    "abfs": Scheme("abfs://container@account.dfs.core.windows.net/…", _BOTH),
    "az": Scheme("az://container/…", _CHECKPOINTS, _CONTAINER, _AZURE, _azure_of_container),
    "azure": Scheme("azure://container/…", _CHECKPOINTS, _CONTAINER, _AZURE, _azure_of_container),
    "adl": Scheme("adl://container/…", _CHECKPOINTS, _CONTAINER, _AZURE, _azure_of_container),
    "wasb": Scheme("wasb://container@account.blob.core.windows.net/…", _NEITHER, _AZURE, _AZURE, _azure),
    "wasbs": Scheme("wasbs://container@account.blob.core.windows.net/…", _NEITHER, _AZURE, _AZURE, _azure),
    "http": Scheme("http://host/…", _NEITHER),
    "https": Scheme(
        "https://account.blob.core.windows.net/container/…",
        _NEITHER,
        f"{_S3}, gs://bucket/… or {_AZURE}",
        _AZURE,
        _azure,
    ),
    "hdfs": Scheme("hdfs://namenode:8020/…", _BOTH),
    "viewfs": Scheme("viewfs://cluster/…", _BOTH),
    "dbfs": Scheme("dbfs:/…", _NEITHER, _DATABRICKS, "/Volumes/… or /dbfs/…, if it is mounted", _mounted, _BEHIND),
    "maprfs": Scheme("maprfs:///…", _NEITHER, "the directory at which MapR mounts it (/mapr/cluster/…)"),
    "oss": Scheme("oss://bucket/…", _NEITHER),
    "mock": Scheme("mock:///…", _FILES),
}
"""Scheme -> what can be at its URLs: for checkpoints as `ObjectStore` opens them, for files as Arrow does."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/?)")
"""The start of a URL, which may have lost a slash. One letter is a drive of Windows."""


_NO_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
"""The start of a URL that has lost both slashes, if it is a known scheme."""
_IN_FRONT = re.compile(r"(?![A-Za-z]:)[^/]*:/")
"""A URL with something else in or before its scheme, such as a blank or a quotation mark."""


def is_url(place: str) -> bool:
    """Whether a place is a URL and not a path.

    >>> is_url("s3://bucket/a"), is_url("/data/a"), is_url("a:b")
    (True, False, False)
    """
    found = _URL.match(place)
    return found is not None and found[2] == "/"


def understood_place(place: str, use: Use = Use.FILES) -> str:
    """The spelling that is used for a place: a path, or a URL. A place that `refusal` refuses stays as it is.

    `~` stands for the home of the user, `file:/path`, as Java writes it, for the path.

    >>> understood_place("file:/data/a%20b"), understood_place("./~"), understood_place("S3A://bucket/~")
    ('/data/a b', './~', 's3://bucket/~')
    """
    return _read(place, use)[0]


_SAME_STORE = {"gcs": "gs", "abfs": "abfss"}
"""Spellings of a scheme whose URLs are those of another one."""


def one_spelling(url: str) -> str:
    """A URL that is equal for all spellings of one place for files: of scheme, host and characters of the path.

    >>> one_spelling("gcs://bucket/a%20b/"), one_spelling("abfs://data@Sales.dfs.core.windows.net/a")
    ('gs://bucket/a b', 'abfss://data@sales.dfs.core.windows.net/a')
    """
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    scheme = scheme.lower()
    return f"{_SAME_STORE.get(scheme, scheme)}://{authority.lower()}{slash}{unquote(path)}".rstrip("/")


def refusal(place: str, use: Use) -> str | None:
    """Why a place cannot be used, and what to write instead; None if it can, as far as its spelling goes.

    >>> refusal("s3://bucket/state", Use.CHECKPOINT), refusal("a:b", Use.FILES)
    (None, None)
    >>> refusal("gs:/bucket/a", Use.FILES)
    'gs:/bucket/a lacks a slash: write gs://bucket/…, or ./gs:/bucket/a for a folder of that name'
    """
    return _read(place, use)[1]


def _read(place: str, use: Use) -> tuple[str, str | None]:
    """The spelling that is used, and why it cannot be."""
    if (url := _URL.match(place)) is None:
        if (wrong := _misspelt(place)) is not None:
            return place, wrong
        path = os.path.expanduser(place)
        return path, _no_links(path) if use is Use.CHECKPOINT else None
    name = url[1].lower()
    if name == "file":
        return _file(place, use)
    scheme = SCHEMES.get(name) or Scheme("", _NEITHER)
    lost_slash = not url[2] and name != "dbfs"
    if not lost_slash:
        if use in scheme.uses:
            return name + place[len(name) :], None
        takes = None if scheme.only_files and use is Use.CHECKPOINT else scheme.other
        if takes is not None and (other := takes(place)) is not None:
            return _read(other, use)
    shown, instead = _shown(place), scheme.better(use)
    if lost_slash:
        better = scheme.shown if use in scheme.uses else instead
        return place, f"{shown} lacks a slash: write {better}, or ./{shown} for a folder of that name"
    return place, (f"{use.value} cannot be at {shown}, as {url[1]}:/{url[2]} is no place for that; use {instead}")


def _shown(place: str) -> str:
    """A place without credentials, also one that is a URL but for its slashes."""
    if (start := re.match(r"([^/]*?):(/?)(?!/)", place)) is None:
        return hidden(place)
    return hidden(f"{start[1]}://{place[start.end() :]}").replace("://", f":{start[2]}", 1)


def _misspelt(place: str) -> str | None:
    """Why text that does not begin as a URL is one nevertheless, and no path; None for a path."""
    shown = _shown(place)
    folder = f"or ./{shown} for a folder of that name"
    if (start := _NO_SLASH.match(place)) is not None and (scheme := SCHEMES.get(start[1].lower())) is not None:
        return f"{shown} lacks two slashes: write {scheme.shown}, {folder}"
    if _IN_FRONT.match(place) is not None:
        return f"{shown!r} is no path, and does not begin with a scheme such as s3://: correct its start, {folder}"
    return None


def _file(place: str, use: Use) -> tuple[str, str | None]:
    """A URL `file:`: the path, and for files `file:///path` as it is, since checkpoints have the names of files."""
    rest = place[len("file:") :]
    host, path = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        path = slash + path
        if host.lower() not in ("", "localhost"):
            shown = hidden(place)
            rest = shown.partition("://")[2]
            reason = f"as {rest.partition('/')[0]} would be the name of a host; use {rest}, or file:///{rest}"
            return place, f"{use.value} cannot be at {shown}, {reason}"
        if not path:
            return (
                place,
                f"{use.value} cannot be at {hidden(place)}, which names no folder; write {SCHEMES['file'].shown}",
            )
        if use is Use.FILES:
            return f"file://{path}", None
    path = unquote(urlsplit(f"file://{path}").path)
    return path, _no_links(path) if use is Use.CHECKPOINT else None


def _no_links(path: str) -> str | None:
    """Why a directory in which Databricks shows a store can have no checkpoint; None for another directory."""
    real = os.path.normpath(os.path.join(os.getcwd(), path))
    mount = next((mount for mount in _MOUNTS if real == mount or real.startswith(f"{mount}/")), None)
    if mount is None or _DATABRICKS_VARIABLE not in os.environ:
        return None
    return (
        f"a checkpoint cannot be at {path}, as the file system that Databricks mounts at {mount} has no hard links, by "
        f"which one of two drivers commits and not both; use {_BEHIND}"
    )


_URL_IN_TEXT = re.compile(
    r"""
    \b([A-Za-z][A-Za-z0-9+.-]*://)
    ((?: [^\s'"<>`:,;.)] | '(?=\w) | [:,;.)](?=[^\s'"<>`]) )*)    # not the punctuation behind it
    """,
    re.VERBOSE,
)
_USER = re.compile(
    r"""
      [^/?\#@[]*@                              # user@, user:password@
    | [^/?\#@:[]*:(?!\d+(?:[/?\#]|$)).*@       # a password with a slash, question mark or @ in it; a port is none
    """,
    re.VERBOSE,
)
_AZURE_URL = re.compile(r"(abfs|wasb)s?://", re.IGNORECASE)
_CONTAINER_NAME = re.compile(r"[0-9A-Za-z$-]{3,63}@")
"""What stands in the place of a user there."""
_HIDDEN = "***"


def hidden(text: str) -> str:
    """A text with `***` in place of users, passwords, fragments and query values in its URLs.

    Scheme, host or bucket, path, and the names of query parameters stay readable.

    >>> hidden("cannot read s3://AKIA:wJalr/X@bucket/prefix: timed out")
    'cannot read s3://***@bucket/prefix: timed out'
    >>> hidden("https://account.blob.core.windows.net/there?sv=2024&sig=abc%3D"), hidden("http://localhost:9000/a@b")
    ('https://account.blob.core.windows.net/there?sv=***&sig=***', 'http://localhost:9000/a@b')
    """
    return _URL_IN_TEXT.sub(lambda found: found[1] + _without_keys(found[1], found[2]), text)


def _without_keys(scheme: str, rest: str) -> str:
    """The part of a URL behind the scheme, without credentials."""
    if (user := _USER.match(rest)) is not None and not (_AZURE_URL.match(scheme) and _CONTAINER_NAME.match(rest)):
        rest = f"{_HIDDEN}@{rest[user.end() :]}"
    place = re.match(r"[^?#]*", rest)
    assert place is not None, "nothing at all matches, too"
    marks_and_parts = re.findall(r"([?&;#])([^?&;#]*)", rest[place.end() :])
    return place[0] + "".join(mark + _without_value(part) for mark, part in marks_and_parts)


def _without_value(part: str) -> str:
    """A query parameter with its value hidden; a parameter without a value, or a fragment, is hidden as a whole."""
    name, sign, value = part.partition("=")
    return f"{name}={_HIDDEN}" if sign and value else _HIDDEN if name else ""
