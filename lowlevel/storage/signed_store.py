r"""A store that signs its objects, for checkpoints where others may write (MillWheel paper §7.1).

    b"HEADSIGN"  8-byte key id  32-byte authentication code of name and contents  contents

The code is keyed BLAKE2b, and is checked before the contents are used: an object that was changed, made elsewhere or
renamed is refused. The key of a checkpoint is derived from the secret and the checkpoint's marker, so objects of
another checkpoint with the same secret are refused. Other processes get only the derived key.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest

from headrace.lowlevel.errors import EMPTY, CheckpointError, DamagedError
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage, ObjectStore

MAGIC = b"HEADSIGN"
KEY_VARIABLE = "HEADRACE_CHECKPOINT_KEY"
"""Name of the environment variable with the secret, for drivers and readers."""
_SHORTEST = 16
_ID_BYTES, _CODE_BYTES = 8, 32
_CODE = len(MAGIC) + _ID_BYTES
_BODY = _CODE + _CODE_BYTES

_known: dict[bytes, bytes] = {}
"""Id of a key -> the key, for all keys that this process has. Only `_key` and `_learned` add to it. A store that was
pickled without its key finds the key here."""


class SignedStore:
    """An `ObjectStorage` that signs objects when it writes them, and refuses to read objects that are not signed.

    It is pickled without its key: a process that unpickles it must have unpickled a `carried` store before.

    Args:
        inner: The store of the signed objects.
        secret: At least 16 bytes that cannot be guessed, the same for all who read or write the checkpoint.

    Raises:
        CheckpointError: The secret is too short.

    >>> from headrace.lowlevel.storage.object_store import ObjectStore
    >>> inner = ObjectStore("memory://")
    >>> store = SignedStore(inner, "correct horse battery")
    >>> store.put("headrace", b"marker"); store.put("a/b", b"1"); store.get("a/b")
    b'1'
    >>> inner.put("a/b", b"2"); store.get("a/b")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.CheckpointError: a/b in memory:// is not signed, but a checkpoint key was given; ...
    """

    def __init__(self, inner: ObjectStorage, secret: str | bytes) -> None:
        data = secret.encode() if isinstance(secret, str) else secret
        if len(data) < _SHORTEST:
            raise CheckpointError(
                f"the checkpoint key has {len(data)} bytes, and fewer than {_SHORTEST} are easily guessed; "
                "make one with: python -c 'import secrets; print(secrets.token_hex(32))'"
            )
        self._inner = inner
        self._root = _derived(b"secret", data)
        self._place: bytes | None = None

    @classmethod
    def _of_place(cls, inner: ObjectStorage, place: bytes) -> SignedStore:
        made = object.__new__(cls)
        made._inner, made._root, made._place = inner, b"", place
        return made

    def __reduce__(self) -> tuple[Callable[..., SignedStore], tuple[ObjectStorage, bytes]]:
        return _found, (self._inner, _id(self._key("")))

    def carried(self) -> SignedStore:
        """The same store, pickled with its key. Pickle it only where secrets may be sent."""
        return _CarriedStore._of_place(self._inner, self._key(""))

    def get(self, path: str) -> bytes | None:
        """See `ObjectStorage`. Raises `CheckpointError` for an object that is not signed with this key."""
        data = self._inner.get(path)
        return None if data is None else self._verified(path, data)

    def put(self, path: str, data: bytes) -> None:
        """See `ObjectStorage`."""
        self._inner.put(path, self._signed(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `ObjectStorage`."""
        return self._inner.put_if_absent(path, self._signed(path, data))

    def list(self, prefix: str) -> list[str]:
        """See `ObjectStorage`. Lists are not signed: anyone who can write there can add, remove and restore objects."""
        return self._inner.list(prefix)

    def delete(self, path: str) -> None:
        """See `ObjectStorage`."""
        self._inner.delete(path)

    def is_empty(self) -> bool:
        """See `ObjectStorage`."""
        return self._inner.is_empty()

    def describe(self) -> str:
        """See `ObjectStorage`."""
        return self._inner.describe()

    def _key(self, path: str) -> bytes:
        """The key of an object: for the marker derived from the secret, for others from the secret and the marker."""
        if path == object_names.MARKER:
            if not self._root:
                raise CheckpointError(f"{path} in {self.describe()} is read with the secret only, which is not here")
            return self._root
        if self._place is None:
            marker = self.get(object_names.MARKER)
            if marker is None:
                raise CheckpointError(f"{self.describe()} has no marker, so it is no checkpoint")
            self._place = _derived(self._root, marker)
            _known[_id(self._place)] = self._place
        return self._place

    def _signed(self, path: str, data: bytes) -> bytes:
        key = self._key(path)
        return b"".join([MAGIC, _id(key), _code(key, path, data), data])

    def _verified(self, path: str, data: bytes) -> bytes:
        name = f"{path} in {self.describe()}"
        if not data:
            # Anyone who can empty a file can also delete it, and deletions are not signed.
            raise DamagedError(name, EMPTY)
        if data[: len(MAGIC)] != MAGIC:
            raise CheckpointError(
                f"{name} is not signed, but a checkpoint key was given; somebody else put it there, or the checkpoint "
                f"was made without a key: start over on an empty one, or unset {KEY_VARIABLE} if you trust all who "
                "can write there. Nothing of it was loaded"
            )
        key, contents = self._key(path), data[_BODY:]
        fits, ours = compare_digest(data[_CODE:_BODY], _code(key, path, contents)), data[len(MAGIC) : _CODE] == _id(key)
        if fits and ours:
            return contents
        if len(data) >= _BODY and not fits and not ours:
            raise CheckpointError(
                f"{name} is signed with another key; give the one that the checkpoint was made with in {KEY_VARIABLE}, "
                "or start over on an empty checkpoint. Nothing of it was loaded"
            )
        raise CheckpointError(
            f"{name} is damaged or forged (its authentication code does not fit its name and its {len(data)} bytes); "
            "put an intact copy of the file there, or start over on an empty checkpoint. Nothing of it was loaded"
        )


class _CarriedStore(SignedStore):
    def __reduce__(self) -> tuple[Callable[..., SignedStore], tuple[ObjectStorage, bytes]]:
        return _learned, (self._inner, self._key(""))


def signed(store: ObjectStorage, secret: str | bytes | None) -> ObjectStorage:
    """The store with signatures; the store itself if the secret is None."""
    return store if secret is None else SignedStore(store, secret)


def checkpoint_store(place: str | os.PathLike[str], secret: str | bytes | None = None) -> ObjectStorage:
    """The storage at a directory or URL, signed if there is a secret: this one, else that in `KEY_VARIABLE`."""
    return signed(ObjectStore(place), os.environ.get(KEY_VARIABLE) if secret is None else secret)


def carried(store: ObjectStorage) -> ObjectStorage:
    """The store in a form that is pickled with its key; the store itself if it has no key."""
    return store.carried() if isinstance(store, SignedStore) else store


def _learned(inner: ObjectStorage, place: bytes) -> SignedStore:
    _known[_id(place)] = place
    return SignedStore._of_place(inner, place)


def _found(inner: ObjectStorage, identity: bytes) -> SignedStore:
    if (place := _known.get(identity)) is None:
        raise CheckpointError(f"this process has not got the key of the signed checkpoint {inner.describe()}")
    return SignedStore._of_place(inner, place)


def _derived(key: bytes, data: bytes) -> bytes:
    return blake2b(data, key=key, person=b"headrace key").digest()


def _id(key: bytes) -> bytes:
    return blake2b(key, digest_size=_ID_BYTES, person=b"headrace id").digest()


def _code(key: bytes, path: str, data: bytes) -> bytes:
    name = path.encode("utf-8", "surrogatepass")
    code = blake2b(len(name).to_bytes(8, "big") + name, key=key, digest_size=_CODE_BYTES, person=b"headrace object")
    code.update(data)
    return code.digest()
