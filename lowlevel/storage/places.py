"""Places that programs name, for checkpoints, sources and sinks: directories, and URLs by their schemes.

One table says what each scheme can be used for, and what to write instead. A directory begins at `~` for the home of
the user, and is a path else; text such as `gs:/bucket` is neither a URL nor a directory, but a URL that lost a slash.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Use(Enum):
    """What a place is for."""

    CHECKPOINT = "a checkpoint"
    FILES = "files"


class Scheme(NamedTuple):
    """What can be at URLs of a scheme."""

    uses: frozenset[Use]
    instead: str = ""
    """What to write for the other uses; empty for what `_INSTEAD` has."""


_BOTH, _NEITHER = frozenset(Use), frozenset[Use]()
_CHECKPOINTS, _FILES = frozenset({Use.CHECKPOINT}), frozenset({Use.FILES})
_INSTEAD = {
    Use.CHECKPOINT: "a directory that the driver and all executors share, s3://bucket/prefix, gs://bucket/prefix or "
    "az://container/prefix",
    Use.FILES: "a directory, s3://bucket/…, gs://bucket/… or abfss://container@account.dfs.core.windows.net/…",
}
_AZURE = "abfss://container@account.dfs.core.windows.net/…"
_DATABRICKS = "the directory that Databricks has for it (/Volumes/… or /dbfs/…), or the URL of the storage behind it"
SCHEMES = {
    "file": Scheme(_BOTH),
    "memory": Scheme(_CHECKPOINTS),
    "s3": Scheme(_BOTH),
    "s3a": Scheme(_CHECKPOINTS, "s3://bucket/…"),
    "s3n": Scheme(_NEITHER, "s3://bucket/…"),
    "gs": Scheme(_BOTH),
    "gcs": Scheme(_FILES, "gs://bucket/…"),
    "az": Scheme(_CHECKPOINTS, _AZURE),
    "azure": Scheme(_CHECKPOINTS, _AZURE),
    "adl": Scheme(_CHECKPOINTS, _AZURE),
    "abfs": Scheme(_BOTH),
    "abfss": Scheme(_BOTH),
    "wasb": Scheme(_NEITHER, _AZURE),
    "wasbs": Scheme(_NEITHER, _AZURE),
    "http": Scheme(_CHECKPOINTS),
    "https": Scheme(_CHECKPOINTS),
    "hdfs": Scheme(_FILES),
    "viewfs": Scheme(_FILES),
    "dbfs": Scheme(_NEITHER, _DATABRICKS),
    "mock": Scheme(_FILES),
}
"""Scheme -> what can be at its URLs: for checkpoints as obstore opens them, for files as Arrow does."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
"""The start of a URL that lost a slash. One letter is a drive of Windows."""


def is_url(place: str) -> bool:
    """Whether a place is a URL and not a path.

    >>> is_url("s3://bucket/a"), is_url("/data/a"), is_url("a:b")
    (True, False, False)
    """
    return _URL.match(place) is not None


def understood_place(place: str) -> str:
    """The place with the home of the user in place of `~`, and the path that `file:/path`, as Java writes it, means.

    >>> understood_place("file:/data/a%20b"), understood_place("./~"), understood_place("s3://bucket/~")
    ('/data/a b', './~', 's3://bucket/~')
    """
    return unquote(urlsplit(place).path) if re.match(r"file:/(?!/)", place) else os.path.expanduser(place)


def refusal(place: str, use: Use) -> str | None:
    """Why a place cannot be used, and what to write instead; None if it can, as far as its spelling goes.

    >>> refusal("s3://bucket/state", Use.CHECKPOINT), refusal("a:b", Use.FILES)
    (None, None)
    >>> refusal("gs:/bucket/a", Use.FILES)
    'gs:/bucket/a lacks a slash: write gs://bucket/…, or ./gs:/bucket/a for a folder of that name'
    """
    shown = hidden(place)
    if (lost := _ONE_SLASH.match(place)) is not None and (name := lost[1].lower()) != "file":
        scheme = SCHEMES.get(name, Scheme(_NEITHER))
        better = f"{name}://bucket/…" if use in scheme.uses else scheme.instead or _INSTEAD[use]
        return f"{shown} lacks a slash: write {better}, or ./{shown} for a folder of that name"
    if (url := _URL.match(place)) is None:
        return None
    scheme = SCHEMES.get(url[1].lower(), Scheme(_NEITHER))
    if use in scheme.uses:
        return None
    return (
        f"{use.value} cannot be at {shown}, as {url[1]}:// is no place for that; use {scheme.instead or _INSTEAD[use]}"
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
_HIDDEN = "***"


def hidden(text: str) -> str:
    """A text with `***` in place of users, passwords, fragments and query values in its URLs.

    Scheme, host or bucket, path, and the names of query parameters stay readable.

    >>> hidden("cannot read s3://AKIA:wJalr/X@bucket/prefix: timed out")
    'cannot read s3://***@bucket/prefix: timed out'
    >>> hidden("https://account.blob.core.windows.net/there?sv=2024&sig=abc%3D"), hidden("http://localhost:9000/a@b")
    ('https://account.blob.core.windows.net/there?sv=***&sig=***', 'http://localhost:9000/a@b')
    """
    return _URL_IN_TEXT.sub(lambda found: found[1] + _without_keys(found[2]), text)


def _without_keys(rest: str) -> str:
    """The part of a URL behind the scheme, without credentials."""
    if (user := _USER.match(rest)) is not None:
        rest = f"{_HIDDEN}@{rest[user.end() :]}"
    place = re.match(r"[^?#]*", rest)
    assert place is not None, "nothing at all matches, too"
    marks_and_parts = re.findall(r"([?&;#])([^?&;#]*)", rest[place.end() :])
    return place[0] + "".join(mark + _without_value(part) for mark, part in marks_and_parts)


def _without_value(part: str) -> str:
    """A query parameter with its value hidden; a parameter without a value, or a fragment, is hidden as a whole."""
    name, sign, value = part.partition("=")
    return f"{name}={_HIDDEN}" if sign and value else _HIDDEN if name else ""
