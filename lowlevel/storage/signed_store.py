r"""A store whose objects carry authentication codes, so that a checkpoint can lie where others may write (paper §7.1).

    b"HEADSIGN"  8 bytes that tell keys apart  32 bytes of code over name and contents  contents

The code is keyed BLAKE2b and is checked before anybody looks at the contents: an object that was changed, made
elsewhere or given another name is refused. The key of a place comes from the secret and the place's marker, so that
objects of another checkpoint with the same secret do not fit. Only the key of the place travels to other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest

from headrace.lowlevel.checkpoint import paths
from headrace.lowlevel.errors import EMPTY, CheckpointError, DamagedError
from headrace.lowlevel.store import Store

MAGIC = b"HEADSIGN"
KEY_VARIABLE = "HEADRACE_CHECKPOINT_KEY"
"""Environment variable of a driver or reader that has the secret."""
_SHORTEST = 16
_ID_BYTES, _CODE_BYTES = 8, 32
_CODE = len(MAGIC) + _ID_BYTES
_BODY = _CODE + _CODE_BYTES

_known: dict[bytes, bytes] = {}
"""Of this process: what tells a key of a place from others -> that key."""


class SignedStore:
    """A `Store` that signs what it writes and refuses to read what is not signed.

    It can be pickled, but without the key: a process that is to read it must have got a `carried` one before.

    Args:
        inner: Where the objects lie.
        secret: At least 16 bytes that nobody can guess, the same for everybody who reads or writes the checkpoint.

    >>> from headrace.lowlevel.store import ObjectStore
    >>> inner = ObjectStore("memory://")
    >>> store = SignedStore(inner, "correct horse battery")
    >>> store.put("headrace", b"marker"); store.put("a/b", b"1"); store.get("a/b")
    b'1'
    >>> inner.put("a/b", b"2"); store.get("a/b")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.CheckpointError: a/b in memory:// is not signed, but a checkpoint key was given; ...
    """

    def __init__(self, inner: Store, secret: str | bytes) -> None:
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
    def _of_place(cls, inner: Store, place: bytes) -> SignedStore:
        made = object.__new__(cls)
        made._inner, made._root, made._place = inner, b"", place
        return made

    def __reduce__(self) -> tuple[Callable[..., SignedStore], tuple[Store, bytes]]:
        return _found, (self._inner, _id(self._key("")))

    def carried(self) -> SignedStore:
        """The same store, pickled with the key of its place. Pickle it only where secrets may go."""
        return _CarriedStore._of_place(self._inner, self._key(""))

    def get(self, path: str) -> bytes | None:
        """See `Store`. Raises `CheckpointError` naming an object that is not signed, or not by this key."""
        data = self._inner.get(path)
        return None if data is None else self._verified(path, data)

    def put(self, path: str, data: bytes) -> None:
        """See `Store`."""
        self._inner.put(path, self._signed(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `Store`."""
        return self._inner.put_if_absent(path, self._signed(path, data))

    def list(self, prefix: str) -> list[str]:
        """See `Store`. Names are not signed: who can write there can add some, take some away, or bring old ones."""
        return self._inner.list(prefix)

    def delete(self, path: str) -> None:
        """See `Store`."""
        self._inner.delete(path)

    def is_empty(self) -> bool:
        """See `Store`."""
        return self._inner.is_empty()

    def describe(self) -> str:
        """See `Store`."""
        return self._inner.describe()

    def _key(self, path: str) -> bytes:
        """What an object of that name is signed with: the marker with the secret, the others with what it says."""
        if path == paths.MARKER:
            if not self._root:
                raise CheckpointError(f"{path} in {self.describe()} is read with the secret only, which is not here")
            return self._root
        if self._place is None:
            marker = self.get(paths.MARKER)
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
            # Whoever could empty a file could delete it as well, and nobody signs that.
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
    def __reduce__(self) -> tuple[Callable[..., SignedStore], tuple[Store, bytes]]:
        return _learned, (self._inner, self._key(""))


def signed(store: Store, secret: str | bytes | None) -> Store:
    """The store with authentication codes, or as it is if there is no secret."""
    return store if secret is None else SignedStore(store, secret)


def carried(store: Store) -> Store:
    """The store in a form that takes its key along when it is pickled; as it is if it has none."""
    return store.carried() if isinstance(store, SignedStore) else store


def _learned(inner: Store, place: bytes) -> SignedStore:
    _known[_id(place)] = place
    return SignedStore._of_place(inner, place)


def _found(inner: Store, identity: bytes) -> SignedStore:
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
