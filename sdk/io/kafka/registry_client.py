"""Clients of schema registries: a process has one for each set of settings, and asks for each schema once.

An error of the client is the registry's answer about a schema, or an outage, which says nothing about a record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.storage.places import hidden

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

Settings: TypeAlias = Mapping[str, object]
"""Settings of a `SchemaRegistryClient`."""
_R = TypeVar("_R")
_DEFAULTS: Settings = {"timeout": 10}
"""Settings that a program may change; the client would wait for an answer without end. Seconds."""
_INCOMPATIBLE, _ABOUT_SCHEMAS = 409, (404, 422)
"""HTTP statuses with which a registry answers; if they are about a schema, the two more digits of its code say what."""


class RegistryError(HeadraceError, ConnectionError):
    """A schema registry did not answer, or refused to. Nothing of this epoch is committed, and no record is lost."""


class _NoAnswerError(Exception):
    """The registry could not be asked. Its cause is the error of the client."""


class _Client:
    """A client of a registry that raises `_NoAnswerError` for what is no answer about a schema."""

    def __init__(self, client: SchemaRegistryClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> object:
        found = getattr(self._client, name)
        return _telling(found) if callable(found) else found


def _telling(ask: Callable[..., _R]) -> Callable[..., _R]:
    @wraps(ask)
    def asked(*args: object, **kwargs: object) -> _R:
        try:
            return ask(*args, **kwargs)
        except Exception as error:
            if _is_answer(error):
                raise
            raise _NoAnswerError from error

    return asked


def _is_answer(error: Exception) -> bool:
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    if not isinstance(error, SchemaRegistryError):
        return False
    status = error.http_status_code
    # An address with a wrong path has the status 404, too, but then the code is -1, 404 or None.
    return status == _INCOMPATIBLE or (status in _ABOUT_SCHEMAS and (error.error_code or 0) // 100 == status)


class _ProcessCache:
    """What this process has made, by what it was made of."""

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._made: dict[str, object] = {}
        self._lock = threading.RLock()

    def once(self, make: Callable[[], _R], *of: object) -> _R:
        """What `make` gave for these arguments, which are compared by their texts."""
        key = repr(of)
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
                if len(self._made) > self._limit:
                    del self._made[next(iter(self._made))]
            return cast(_R, self._made[key])


once_in_process = _ProcessCache().once
"""Keeps clients, serializers and deserializers, which know what they have asked for, over tasks and epochs."""


def client_of(settings: Settings) -> SchemaRegistryClient:
    """The client of this process, as serializers take it. Raises `ValueError` for settings that are refused."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    def make() -> _Client:
        # It opens no connection before it is asked something.
        return _Client(SchemaRegistryClient.new_client({**_DEFAULTS, **settings}))

    try:
        return cast(SchemaRegistryClient, once_in_process(make, sorted(settings.items())))
    except Exception as error:
        reason = str(error).replace(str(settings["url"]), "the url")
        raise ValueError(f"schema_registry is refused by its client: {reason}; correct it") from error


@contextmanager
def asking(settings: Settings, subject: str) -> Iterator[None]:
    """Raise `RegistryError` if the registry does not answer what it is asked about a subject."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _NoAnswerError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        reason = cause.__cause__
        raise RegistryError(
            f"the schema registry at {hidden(str(settings['url']))} did not answer about {subject}: "
            f"{type(reason).__name__}: {hidden(str(reason))[:500]}; nothing of this epoch is committed: check the "
            "address, the credentials and that it runs, and start again"
        ) from reason


def checked_registry(settings: object) -> Settings:
    """The settings. Raises `TypeError` for settings without an address."""
    if not isinstance(settings, Mapping):
        given = f"is {hidden(repr(settings))[:200]}"
    elif not settings.get("url"):
        # Their values may be passwords.
        given = f"has the settings {sorted(settings)}"
    else:
        return settings
    raise TypeError(
        f"schema_registry {given}; give settings with its address, such as {{'url': 'http://localhost:8081'}}"
    )


def require_registry_package() -> None:
    """Raise `ImportError`, with the command that installs it, if the client of registries is not there."""
    try:
        import confluent_kafka.schema_registry.avro
        import confluent_kafka.schema_registry.json_schema  # noqa: F401 - only tried
    except ImportError as error:
        raise ImportError(
            f"schema registries are asked by confluent-kafka, which needs more for it ({error}): "
            "pip install 'headrace[kafka,schema-registry]'"
        ) from error
