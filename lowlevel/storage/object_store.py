"""Stores of named objects, for checkpoints (MillWheel paper §6.2, §7.1).

The interface is small on purpose. Beyond reading and writing, a checkpoint needs one conditional write,
`put_if_absent`, which most object stores support. `ObjectStore` implements it for local directories, memory and cloud
stores.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from obstore import store as obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.storage.arrow_urls import HADOOP
from headrace.lowlevel.storage.credentials import (
    Credentials,
    HookError,
    credentials_of,
    hook_in_use,
    is_fit,
    without_secrets,
)
from headrace.lowlevel.storage.hdfs_objects import hdfs_objects
from headrace.lowlevel.storage.local_objects import LocalObjects
from headrace.lowlevel.storage.obstore_private import (
    environment_variable,
    error_number,
    error_text,
    may_use_threads,
)
from headrace.lowlevel.storage.places import Use, hidden, is_url, refusal, understood_place

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_NAME = re.compile(r"[0-9A-Za-z_.=-]+(?:/[0-9A-Za-z_.=-]+)*")
_UP = re.compile(r"(?:^|/)\.\.?(?:/|$)")
_FROM_ENVIRONMENT = (
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "user_agent"),
    *("proxy_url", "proxy_ca_certificate", "proxy_excludes"),
)
_KEYS_IN_HEADERS = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
"""For how long a failed operation on a cloud store is retried, seconds; one request may take half of it."""
_INTACT = "Committed epochs are intact; start again when it is mended"
_OTHER_PLACE = "choose a place in which a directory can be made", "correct the URL or the settings of its store"
"""What to do about an error of the place of a store that has no remedy of its own: a path, or a URL."""
_REMEDIES = {
    errno.ENOSPC: "free some space there and start again",
    errno.EDQUOT: "free some space there and start again",
    errno.EFBIG: "raise the limit on file sizes and start again",
    errno.EACCES: "give this user the right to read and write there, or choose another place",
    errno.EPERM: "give this user the right to read and write there, or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOTDIR: "choose a directory: a part of that path is a file",
    errno.ENAMETOOLONG: "choose a shorter one",
    errno.ELOOP: "choose a directory: links of that path lead to each other",
}


_LIBRARY = re.compile(r"Unable to load lib(jvm|hdfs)")
HADOOP_REMEDY = "install Java and Hadoop's native libraries, and set JAVA_HOME, HADOOP_HOME and CLASSPATH"


class StoreError(HeadraceError, OSError):
    """An operation of a store failed. Committed epochs are intact; a failed write may or may not have happened.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from headrace.lowlevel import CheckpointView
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "file").write_text("")
    ...     try:
    ...         CheckpointView.of(f"{folder}/file")
    ...     except StoreError as error:
    ...         print(type(error).__name__)
    PlaceError
    """


class PlaceError(StoreError):
    """A store cannot be opened: its name is empty, a file, or an unknown URL. Nothing was read or written.

    >>> from headrace.lowlevel import CheckpointView
    >>> CheckpointView.of("ftp://host/state")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.storage.object_store.PlaceError: ...
    """


class ObjectStorage(Protocol):
    """A store of named objects. Writes are atomic, and all readers see a write once it has returned."""

    def get(self, path: str) -> bytes | None:
        """Contents of an object; None if it does not exist."""

    def put(self, path: str, data: bytes) -> None:
        """Write an object, or replace the object of that name."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless the name is taken; whether it was written. Of several writers one gets True."""

    def list(self, prefix: str) -> list[str]:
        """Names of all objects in the folder `prefix` and its subfolders, sorted."""

    def delete(self, path: str) -> None:
        """Delete an object; nothing happens if it does not exist."""

    def is_empty(self) -> bool:
        """Whether the store has no object."""

    def describe(self) -> str:
        """The location of the store, for messages."""


Location = str | os.PathLike[str] | ObjectStorage
"""A directory path, a URL, or an `ObjectStorage`."""


class ObjectStore:
    """An `ObjectStorage` in a local directory (path or `file://`), in memory (`memory://`), in HDFS or a cloud store.

    Cloud stores (`s3://bucket/prefix`, `gs://…`, `az://…`) take endpoint and credentials from the environment of the
    process: `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID` and so on; plain http needs `AWS_ALLOW_HTTP=true`. A write is
    durable when it returns. A store can be pickled: in another process it opens the same location with the environment
    of that process. A store in memory cannot be pickled.

    The first write makes a local directory that does not exist. A directory that has existed is never made again, also
    not by an unpickled store: if the directory was removed, so were all its objects.

    Args:
        place: A directory or URL.
        patience: For how long a failed operation on a cloud store is retried, seconds; one request may take half of it.
        hook: Import path of the function that gives the credentials of a cloud store (docs/security.md); by default
            the one that this process uses.

    Raises:
        PlaceError: The store cannot be opened.

    >>> store = ObjectStore("memory://")
    >>> store.put_if_absent("a/b", b"1"), store.put_if_absent("a/b", b"2"), store.get("a/b"), store.list("a")
    (True, False, b'1', ['a/b'])
    """

    def __init__(
        self, place: str | os.PathLike[str], patience: float = PATIENCE_SECONDS, hook: str | None = None
    ) -> None:
        self._patience = patience
        used = _used(place)
        self._root = None if is_url(used) else Path(used).absolute()
        self._place = used if self._root is None else str(self._root)
        self._objects: obstore.ObjectStore | None = None
        self._local = None if self._root is None else LocalObjects(self._root)
        self._was_there = False
        """Whether the directory has been seen, by this store or by the store from which it was unpickled."""
        self._hook: str | None = None
        self._credentials: Credentials | None = None
        if self._root is None:
            self._hook = hook or hook_in_use()
            with self._explained("open", ""):
                self._credentials = credentials_of(self._place, self._hook)
                self._objects = _opened(self._place, patience, self._credentials)

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[str, float, str | None], dict[str, bool]]:
        if self._place.startswith("memory:"):
            raise StoreError(
                "a memory:// store exists in one process only and cannot be sent to another; "
                "give the checkpoint a directory, or a URL such as s3://bucket/prefix"
            )
        return type(self), (self._place, self._patience, self._hook), {"_was_there": self._was_there}

    def describe(self) -> str:
        """See `ObjectStorage`; credentials are left out."""
        return hidden(self._place)

    def get(self, path: str) -> bytes | None:
        """See `ObjectStorage`; raises `StoreError`."""
        if (objects := self._existing()) is None:
            return None
        with self._explained("read", path):
            try:
                if self._local is not None:
                    return self._local.get(path)
                return bytes(objects.get(path).bytes())
            except FileNotFoundError:
                return None

    def put(self, path: str, data: bytes) -> None:
        """See `ObjectStorage`; raises `StoreError`."""
        with self._explained("write", path):
            objects = self._created()
            if self._local is None:
                objects.put(path, data)
            else:
                self._local.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `ObjectStorage`; raises `StoreError`."""
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
        """See `ObjectStorage`; raises `StoreError`."""
        if (objects := self._existing()) is None:
            return []
        with self._explained("list", prefix):
            return sorted(entry["path"] for chunk in objects.list(prefix, chunk_size=1000) for entry in chunk)

    def delete(self, path: str) -> None:
        """See `ObjectStorage`; raises `StoreError`."""
        if (objects := self._existing()) is not None:
            with self._explained("delete", path), suppress(FileNotFoundError):
                if self._local is None:
                    objects.delete(path)
                else:
                    self._local.delete(path)

    def is_empty(self) -> bool:
        """See `ObjectStorage`; raises `StoreError`."""
        if (objects := self._existing()) is None:
            return True
        with self._explained("list", ""):
            return not any(len(chunk) for chunk in objects.list(chunk_size=1))

    def _existing(self) -> obstore.ObjectStore | None:
        """The store for reading, which does not make the directory; None if the directory does not exist."""
        if self._objects is None and self._root is not None and self._exists(self._root):
            with self._explained("open", ""):
                return self._created()
        return self._objects

    def _exists(self, root: Path) -> bool:
        try:
            return root.exists()
        except OSError:
            # There can be no directory of this name, as it is too long.
            with self._explained("open", ""):
                raise

    def _created(self) -> obstore.ObjectStore:
        if self._objects is None:
            assert self._local is not None
            root = self._local.root
            if root.exists() and not root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, str(root))
            if not self._was_there:
                self._local.make()
                self._was_there = True
            self._objects = obstore.LocalStore(root)
        return self._objects

    @contextmanager
    def _explained(self, action: str, path: str) -> Iterator[None]:
        try:
            _refuse_fork()
            self._refuse_way_out(path)
            if self._credentials is not None:
                # Before a request, as an error in the provider would come as one of the request, after all its retries.
                self._credentials.current()
            yield
        except HookError as error:
            raise StoreError(f"cannot {action} {self._name(path)}: {error}. {_INTACT}") from None
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            # An error before the store was first opened is an error of its location.
            kind = PlaceError if self._objects is None else StoreError
            # The error of obstore contains the URL with its credentials.
            cause = error if self.describe() == self._place and self._credentials is None else None
            # A `ValueError` with a path is of the name of an object, and says what to do.
            is_of_place = kind is PlaceError and not (path and isinstance(error, ValueError))
            remedy = _OTHER_PLACE[self._local is None] if is_of_place else ""
            reason = self._loss() or without_secrets(hidden(_reason(error, remedy)))
            raise kind(f"cannot {action} {self._name(path)}: {reason}") from cause

    def _loss(self) -> str | None:
        """The message for a directory that has existed and is gone; None otherwise."""
        if self._root is None or not self._was_there or self._root.exists():
            return None
        return (
            f"{self._root} was there and is gone, so it was removed, is no longer mounted, or not shared by this host; "
            "put it back and start again. It is not made anew: what was committed would not be in it"
        )

    def _refuse_way_out(self, path: str) -> None:
        """Raise ValueError for a name that leads outside of the store: names are read from the checkpoint."""
        if path and (not _NAME.fullmatch(path) or _UP.search(path)):
            raise ValueError("that is no name in a checkpoint: names are letters, digits and _ . = - between single /")
        if self._local is not None and path and (link := self._local.is_linked(path)) is not None:
            raise ValueError(f"{link} is a symbolic link, and nothing in a checkpoint is; take it away")

    def _name(self, path: str) -> str:
        place = self.describe()
        return f"{place.rstrip('/')}/{path}" if path else place


def _opened(place: str, patience: float, credentials: Credentials | None) -> obstore.ObjectStore:
    """Open the store of a URL. No operation takes much longer than `patience`, seconds."""
    scheme = place.partition("://")[0]
    if scheme == "memory":
        return obstore.from_url(place)
    if scheme in HADOOP:
        return cast("obstore.ObjectStore", hdfs_objects(place, patience))
    if scheme == "s3" and credentials is None:
        _check_environment()
    options: dict[str, object] = {
        "connect_timeout": timedelta(seconds=min(_CONNECT_SECONDS, patience / 2)),
        "timeout": timedelta(seconds=patience / 2),
        # Options given here replace all options that obstore would take from the environment.
        **{
            name: os.environ[variable]
            for name in _FROM_ENVIRONMENT
            if (variable := environment_variable(scheme, name)) in os.environ
        },
    }
    return obstore.from_url(
        place,
        client_options=cast("ClientConfig", options),
        retry_config={"retry_timeout": timedelta(seconds=patience)},
        **({} if credentials is None else {"credential_provider": cast("Any", credentials.for_obstore)}),
    )


def _check_environment() -> None:
    """Raises ValueError for keys of S3 that cannot be sent, at which obstore would panic."""
    for name in _KEYS_IN_HEADERS:
        if not is_fit(os.environ.get(name) or "none"):
            raise ValueError(f"{name} in the environment has a blank, a line break or no ASCII in it; set it without")


def opened_location(
    location: Location, opened: Callable[[str | os.PathLike[str]], ObjectStorage] = ObjectStore
) -> ObjectStorage:
    """The store that a program has given, or the one at the place that it names. Raises `PlaceError`."""
    if not isinstance(location, (str, os.PathLike)) and hasattr(location, "put_if_absent"):
        return location
    return opened(cast("str | os.PathLike[str]", location))


def _used(location: object) -> str:
    """The path or URL that is used for a place. Raises `PlaceError` for one at which no checkpoint can be."""
    if not isinstance(location, str | os.PathLike) or not isinstance(place := os.fspath(location), str):
        raise PlaceError(f"the place of the checkpoint is {location!r:.200}; give a directory or a URL as text")
    if not place:
        raise PlaceError("the place of the checkpoint is empty; give a directory or a URL such as s3://bucket/prefix")
    if (wrong := refusal(place, Use.CHECKPOINT)) is not None:
        raise PlaceError(wrong)
    return understood_place(place, Use.CHECKPOINT)


def _refuse_fork() -> None:
    if not may_use_threads():
        raise StoreError(
            f"process {os.getpid()} was forked from one that already used a checkpoint store, which cannot work; "
            "start processes with the method 'spawn', or fork before the first use"
        )


def _reason(error: Exception, otherwise: str) -> str:
    """The message of a store's error: the operating system's message, if it is known, and a remedy.

    Args:
        error: The error.
        otherwise: The remedy for an error that has none of its own; may be empty.
    """
    number = error_number(error)
    remedy = otherwise if number is None else _REMEDIES.get(number, otherwise)
    # libhdfs has numbers of its own.
    text = os.strerror(number).lower() if number and number in errno.errorcode else error_text(error)
    if missing := _LIBRARY.match(text):
        return f"{missing[0]}; {HADOOP_REMEDY}"
    return f"{text}; {remedy}" if remedy else text
