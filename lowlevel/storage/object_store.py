"""Where a checkpoint lies: a flat space of named objects, written whole and never changed (paper §6.2, §7.1).

The seam is small on purpose: what the checkpoint needs beyond reading and writing is one conditional write,
`put_if_absent`, which every object store has. `ObjectStore` offers it over local directories, memory and cloud stores.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import unquote, urlsplit

from obstore import store as obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from headrace.lowlevel.credentials import hidden
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.localobjects import LocalObjects

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_NAME = re.compile(r"[0-9A-Za-z_.=-]+(?:/[0-9A-Za-z_.=-]+)*")
_UP = re.compile(r"(?:^|/)\.\.?(?:/|$)")
_USERS: dict[str, int] = {}
"""The process that obstore's threads belong to, once there are any."""
_FROM_ENVIRONMENT = (
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "user_agent"),
    *("proxy_url", "proxy_ca_certificate", "proxy_excludes"),
)
_CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
"""How long a cloud store is tried again when it fails; one request may take half of it."""
_PLAIN_HTTP = "; the endpoint is not encrypted: give one with https, or set AWS_ALLOW_HTTP=true if that is meant"
_REMEDIES = {
    errno.ENOSPC: "free some space there and start again",
    errno.EDQUOT: "free some space there and start again",
    errno.EFBIG: "raise the limit on file sizes and start again",
    errno.EACCES: "give this user the right to read and write there, or choose another place",
    errno.EPERM: "give this user the right to read and write there, or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOTDIR: "choose a directory: a part of that path is a file",
}


class StoreError(HeadraceError, OSError):
    """The store refused or failed. Committed epochs are intact; a write that failed may or may not have happened."""


class PlaceError(StoreError):
    """There can be no store at that place: no name, a file, a URL that nothing knows. Nothing was read or written."""


class Store(Protocol):
    """Named objects. An object appears whole or not at all, and once an operation returns everybody sees its effect."""

    def get(self, path: str) -> bytes | None:
        """Contents of an object; None if there is none."""

    def put(self, path: str, data: bytes) -> None:
        """Write an object, replacing one of that name."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless the name is taken. Of several writers exactly one gets True."""

    def list(self, prefix: str) -> list[str]:
        """Names of all objects in the folder `prefix` and below it, sorted."""

    def delete(self, path: str) -> None:
        """Take an object away; nothing happens if there is none."""

    def is_empty(self) -> bool:
        """Whether there is no object at all."""

    def describe(self) -> str:
        """The place as a person would name it, for messages."""


class ObjectStore:
    """A `Store` in a local directory (path or `file://`), in memory (`memory://`), or at any URL that obstore knows.

    Cloud stores (`s3://bucket/prefix`, `gs://…`, `az://…`) take endpoint and credentials from the environment of the
    process: `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID` and so on; plain http only with `AWS_ALLOW_HTTP=true`. A local
    write is on the disk when it returns, as it is in cloud stores. The store can be pickled and opens the same place
    in another process, by that one's own environment; except one in memory, which belongs to its process.

    The first write makes a local directory that is not there. One that was there once, or is opened by a pickled store,
    is never made again: who took it away has taken everything, and what is written then would be no checkpoint.

    Args:
        place: Directory or URL.
        patience: Seconds for which a cloud store that fails is tried again, and half of which one request may take.

    >>> store = ObjectStore("memory://")
    >>> store.put_if_absent("a/b", b"1"), store.put_if_absent("a/b", b"2"), store.get("a/b"), store.list("a")
    (True, False, b'1', ['a/b'])
    """

    def __init__(self, place: str | os.PathLike[str], patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._root = _local_root(os.fspath(place))
        self._place = os.fspath(place) if self._root is None else str(self._root)
        self._objects: obstore.ObjectStore | None = None
        self._local = None if self._root is None else LocalObjects(self._root)
        self._was_there = False
        """Whether the directory has been seen, by this store or by one that it is a copy of."""
        if self._root is None:
            with self._explained("open", ""):
                self._objects = _opened(self._place, patience)

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[str, float], dict[str, bool]]:
        if self._place.startswith("memory:"):
            raise StoreError(
                "a memory:// store exists in one process only and cannot be sent to another; "
                "give the checkpoint a directory, or a URL such as s3://bucket/prefix"
            )
        return type(self), (self._place, self._patience), {"_was_there": self._was_there}

    def describe(self) -> str:
        """See `Store`; what a URL has of keys is left out."""
        return hidden(self._place)

    def get(self, path: str) -> bytes | None:
        """See `Store`; raises `StoreError`."""
        if (objects := self._existing()) is None:
            return None
        with self._explained("read", path):
            try:
                return bytes(objects.get(path).bytes())
            except FileNotFoundError:
                return None

    def put(self, path: str, data: bytes) -> None:
        """See `Store`; raises `StoreError`."""
        with self._explained("write", path):
            objects = self._created()
            if self._local is None:
                objects.put(path, data)
            else:
                self._local.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `Store`; raises `StoreError`."""
        with self._explained("write", path):
            objects = self._created()
            if self._local is not None:
                return self._local.put_if_absent(path, data)
            try:
                objects.put(path, data, mode="create")
            except AlreadyExistsError:
                return False
            return True

    def list(self, prefix: str) -> list[str]:
        """See `Store`; raises `StoreError`."""
        if (objects := self._existing()) is None:
            return []
        with self._explained("list", prefix):
            return sorted(entry["path"] for chunk in objects.list(prefix, chunk_size=1000) for entry in chunk)

    def delete(self, path: str) -> None:
        """See `Store`; raises `StoreError`."""
        if (objects := self._existing()) is not None:
            with self._explained("delete", path), suppress(FileNotFoundError):
                if self._local is not None:
                    # Objects are deleted long after they were written, so what is older yet is nobody's any more.
                    self._local.sweep((self._local.root / path).stat().st_mtime_ns)
                objects.delete(path)

    def is_empty(self) -> bool:
        """See `Store`; raises `StoreError`."""
        if (objects := self._existing()) is None:
            return True
        with self._explained("list", ""):
            return not any(len(chunk) for chunk in objects.list(chunk_size=1))

    def _existing(self) -> obstore.ObjectStore | None:
        """The store for reading: looking at a directory that is not there does not make it."""
        if self._objects is None and self._root is not None and self._root.exists():
            with self._explained("open", ""):
                return self._created()
        return self._objects

    def _created(self) -> obstore.ObjectStore:
        if self._objects is None:
            assert self._local is not None
            root = self._local.root
            if root.exists() and not root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, str(root))
            if not self._was_there:
                self._local.make()
                self._was_there = True
            self._objects = obstore.LocalStore(root, automatic_cleanup=True)
        return self._objects

    @contextmanager
    def _explained(self, action: str, path: str) -> Iterator[None]:
        try:
            _refuse_fork()
            self._refuse_way_out(path)
            yield
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            # Before it was opened for the first time it is the place that will not do.
            kind = PlaceError if self._objects is None else StoreError
            # A store's own error tells the URL with its keys, in several forms.
            cause = error if self.describe() == self._place else None
            raise kind(f"cannot {action} {self._name(path)}: {self._loss() or hidden(_reason(error))}") from cause

    def _loss(self) -> str | None:
        """What to say of a directory that is gone, and everything in it."""
        if self._root is None or not self._was_there or self._root.exists():
            return None
        return (
            f"{self._root} was there and is gone, so it was removed, is no longer mounted, or not shared by this host; "
            "put it back and start again. It is not made anew: what was committed would not be in it"
        )

    def _refuse_way_out(self, path: str) -> None:
        """Names come out of the checkpoint, and nobody who wrote there may point at what lies elsewhere."""
        if path and (not _NAME.fullmatch(path) or _UP.search(path)):
            raise ValueError("that is no name in a checkpoint: names are letters, digits and _ . = - between single /")
        if self._root is None or not path:
            return
        place = self._root
        for part in path.split("/"):
            place = place / part
            if place.is_symlink():
                raise ValueError(f"{place} is a symbolic link, and nothing in a checkpoint is; take it away")

    def _name(self, path: str) -> str:
        place = self.describe()
        return f"{place.rstrip('/')}/{path}" if path else place


def _opened(place: str, patience: float) -> obstore.ObjectStore:
    """The store of a URL. However badly it answers, no operation takes much longer than `patience`, seconds."""
    scheme = place.partition("://")[0]
    if scheme == "memory":
        return obstore.from_url(place)
    options: dict[str, object] = {
        "connect_timeout": timedelta(seconds=min(_CONNECT_SECONDS, patience / 2)),
        "timeout": timedelta(seconds=patience / 2),
        # Options that are given here replace all that obstore would take from the environment.
        **{
            name: os.environ[variable]
            for name in _FROM_ENVIRONMENT
            if (variable := _variable(scheme, name)) in os.environ
        },
    }
    return obstore.from_url(
        place,
        client_options=cast("ClientConfig", options),
        retry_config={"retry_timeout": timedelta(seconds=patience)},
    )


def _variable(scheme: str, option: str) -> str:
    """The environment variable of an option of the connection, as obstore's stores call it.

    >>> _variable("s3", "allow_http")
    'AWS_ALLOW_HTTP'
    """
    prefix = "AWS" if scheme.startswith("s3") else "GOOGLE" if scheme == "gs" else "AZURE"
    return f"{prefix}_{option.upper()}"


def _local_root(place: str) -> Path | None:
    """The directory of a local place, absolute, so that workers in other directories find it; None for a URL."""
    if not place:
        raise PlaceError("the place of the checkpoint is empty; give a directory or a URL such as s3://bucket/prefix")
    if place.startswith("file://"):
        return Path(unquote(urlsplit(place).path)).absolute()
    return None if "://" in place else Path(place).absolute()


def _refuse_fork() -> None:
    """The threads of obstore do not outlive a fork: a child would wait for them for ever."""
    user = _USERS.setdefault("obstore", os.getpid())
    if user != os.getpid():
        raise StoreError(
            f"process {os.getpid()} was forked from one that already used a checkpoint store, which cannot work; "
            "start processes with the method 'spawn', or fork before the first use"
        )


def _reason(error: Exception) -> str:
    """One sentence out of a store's error: the system's own words and what to do about it, where that is known."""
    text = str(error)
    found = _OS_ERROR.search(text)
    number = int(found[1]) if found else getattr(error, "errno", None)
    if number is None:
        plain = "builder error" in text and "http://" in text
        return text.split("\n\nDebug source", 1)[0] + (_PLAIN_HTTP if plain else "")
    remedy = _REMEDIES.get(number)
    return os.strerror(number).lower() + (f"; {remedy}" if remedy else "")
