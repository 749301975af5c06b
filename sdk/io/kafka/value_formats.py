"""What: keys and values of Kafka as JSON or Avro, alone or as a schema registry frames them.

A format is configuration until it is used in a process. A process has one client of a schema registry for each set of
settings, and asks for each schema once. An error of the client is the registry's answer about a schema, or an outage,
which says nothing about a record.
"""

from __future__ import annotations

import io
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.storage.places import hidden
from headrace.sdk.io.argument_checks import require_package
from headrace.sdk.io.avro.avro_encoding import Schema, WriterSchema, checked_schema, naming, plain
from headrace.sdk.io.records import json_of

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


class Place(NamedTuple):
    """Where a key or value stands."""

    topic: str
    role: str
    """`key` or `value`."""
    headers: tuple[tuple[str, bytes | None], ...] = ()


Read = Callable[[bytes, Place], object]
Write = Callable[[object, Place], bytes | None]


class ValueFormat(ABC):
    """A format of keys or values; an argument `value_deserializer` or `value_serializer`, and the same for keys.

    >>> from headrace.io import kafka_values
    >>> isinstance(kafka_values.json(), ValueFormat)
    True
    """

    @abstractmethod
    def read(self, data: bytes, place: Place) -> object:
        """The value of some bytes. Raises for bytes that do not fit."""

    @abstractmethod
    def write(self, value: object, place: Place) -> bytes | None:
        """The bytes of a value. Raises for a value that does not fit."""

    def check_reading(self) -> None:  # noqa: B027 - without settings there is nothing to check
        """Raise `ValueError` or `TypeError` if the settings do not allow reading."""

    def check_writing(self) -> None:  # noqa: B027 - as above
        """Raise `ValueError` or `TypeError` if the settings do not allow writing."""


class PlainJson(ValueFormat):
    """JSON text in UTF-8, without a schema."""

    def read(self, data: bytes, place: Place) -> object:
        """See `ValueFormat`."""
        return json.loads(data)

    def write(self, value: object, place: Place) -> bytes:
        """See `ValueFormat`."""
        return json_of(value).encode()


class PlainAvro(ValueFormat):
    """Avro's binary encoding of one schema, which readers and writers must know, as nothing in the bytes names it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = WriterSchema(schema)

    def read(self, data: bytes, place: Place) -> object:
        """See `ValueFormat`."""
        from fastavro import schemaless_reader

        file = io.BytesIO(data)
        value = schemaless_reader(file, self._schema.parsed, None)
        if rest := len(data) - file.tell():
            raise ValueError(f"{rest} bytes are left behind the value; the schema is not the one it was written with")
        return value

    def write(self, value: object, place: Place) -> bytes:
        """See `ValueFormat`."""
        with naming(lambda: value):
            return self.fitted(value)[1]

    def fitted(self, value: object) -> tuple[object, bytes]:
        """A value in the form in which fastavro writes it, and its bytes. Raises what fastavro raises."""
        from fastavro import schemaless_writer

        file, record = io.BytesIO(), self._schema.fitting(value)
        schemaless_writer(file, self._schema.parsed, record)
        return record, file.getvalue()


class RegistryFormat(ValueFormat):
    """Values with the number of their schema in a registry before them, by confluent-kafka's own serializers.

    Args:
        registry: Settings of a `SchemaRegistryClient`.
        schema: The schema to write with, or that values are read as; None for that of the writer.
        settings: Settings of the serializer or deserializer.
    """

    def __init__(self, registry: Mapping[str, object], schema: Schema | None, settings: Mapping[str, object]) -> None:
        require_registry_package()
        self._registry = dict(registry)
        self._schema = schema
        self._settings = dict(settings)
        self._reader: Read | None = None
        self._writer: Write | None = None
        client_of(self._registry)

    def __getstate__(self) -> dict[str, object]:
        """Each process makes its own serializers."""
        return {**self.__dict__, "_reader": None, "_writer": None}

    @property
    def schema_text(self) -> str | None:
        """The schema as JSON."""
        return None if self._schema is None else json.dumps(self._schema)

    @abstractmethod
    def make_reader(self, client: SchemaRegistryClient, settings: dict[str, object]) -> object:
        """The deserializer of confluent-kafka."""

    @abstractmethod
    def make_writer(self, client: SchemaRegistryClient, settings: dict[str, object]) -> object:
        """The serializer of confluent-kafka."""

    def check_reading(self) -> None:
        """See `ValueFormat`."""
        self._reading()

    def check_writing(self) -> None:
        """See `ValueFormat`."""
        names = ("use.schema.id", "use.latest.version", "use.latest.with.metadata")
        if self._schema is None and not any(map(self._settings.get, names)):
            raise ValueError(
                "values are written to a schema registry without a schema; give schema=, or settings="
                "{'auto.register.schemas': False, 'use.latest.version': True} for the newest one that the registry has"
            )
        if getattr(self._settings.get("schema.id.serializer"), "__name__", "") == "header_schema_id_serializer":
            raise ValueError("settings put the schema's number into a header; leave schema.id.serializer out")
        self._writing()

    def read(self, data: bytes, place: Place) -> object:
        """See `ValueFormat`. Raises `RegistryError` if the registry does not answer."""
        with asking(self._registry, _subject(place)), _explaining():
            return self._reading()(data, place)

    def write(self, value: object, place: Place) -> bytes | None:
        """See `ValueFormat`. Raises `RegistryError` if the registry does not answer."""
        with asking(self._registry, _subject(place)), naming(lambda: value), _explaining():
            return self._writing()(value, place)

    def _reading(self) -> Read:
        if self._reader is None:
            self._reader = self._made(self.make_reader)
        return self._reader

    def _writing(self) -> Write:
        if self._writer is None:
            self._writer = cast(Write, self._made(self.make_writer))
        return self._writer

    def _made(self, make: Callable[[SchemaRegistryClient, dict[str, object]], object]) -> Read:
        configuration = sorted(self._registry.items()), self.schema_text, sorted(self._settings.items())
        client = client_of(self._registry)
        try:
            serde = once_in_process(lambda: make(client, self._settings), make.__qualname__, *configuration)
            return _in_context(serde)
        except Exception as error:
            raise ValueError(f"schema or settings are refused by confluent-kafka: {error}; correct them") from error


class RegistryJson(RegistryFormat):
    """JSON, checked against a JSON schema."""

    def make_reader(self, client: SchemaRegistryClient, settings: dict[str, object]) -> object:
        """See `RegistryFormat`."""
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer

        return JSONDeserializer(self.schema_text, schema_registry_client=client, conf=settings)

    def make_writer(self, client: SchemaRegistryClient, settings: dict[str, object]) -> object:
        """See `RegistryFormat`."""
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        return JSONSerializer(self.schema_text, client, lambda value, _: json.loads(json_of(value)), settings)


class RegistryAvro(RegistryFormat):
    """Avro's binary encoding."""

    def __init__(self, registry: Mapping[str, object], schema: Schema | None, settings: Mapping[str, object]) -> None:
        super().__init__(registry, schema, settings)
        self._plain = None if schema is None else PlainAvro(schema)

    def make_reader(self, client: SchemaRegistryClient, settings: dict[str, object]) -> object:
        """See `RegistryFormat`."""
        from confluent_kafka.schema_registry.avro import AvroDeserializer

        return AvroDeserializer(client, self.schema_text, conf=settings)

    def make_writer(self, client: SchemaRegistryClient, settings: dict[str, object]) -> object:
        """See `RegistryFormat`."""
        from confluent_kafka.schema_registry.avro import AvroSerializer

        return AvroSerializer(client, self.schema_text, self._fitting, settings)

    def _fitting(self, value: object, _: object) -> object:
        # confluent-kafka's serializer would leave out fields that the schema does not have.
        return plain(value) if self._plain is None else self._plain.fitted(value)[0]


def _in_context(serde: object) -> Read:
    """A serializer or deserializer of confluent-kafka as a function of `Place`s."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    call = cast("Callable[[object, SerializationContext], object]", serde)

    def called(data: object, place: Place) -> object:
        return call(data, SerializationContext(place.topic, MessageField(place.role), list(place.headers)))

    return called


def _subject(place: Place) -> str:
    return f"the {place.role} schema of topic {place.topic!r}"


@contextmanager
def _explaining() -> Iterator[None]:
    """Name the place in a value that breaks a rule of a JSON schema."""
    from confluent_kafka.serialization import SerializationError

    try:
        yield
    except SerializationError as error:
        path = getattr(error.__context__, "json_path", None)
        if path is None:
            raise
        raise ValueError(f"{path}: {error}") from error


def _check_json_schema(schema: object) -> None:
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    if schema is not None and not isinstance(schema, Mapping):
        raise TypeError(f"schema is {schema!r:.200}; give a JSON schema as a dict")
    try:
        validator_for(schema or {}).check_schema(schema or {})
    except SchemaError as error:
        raise ValueError(f"schema {schema!r:.200} is no JSON schema ({error.json_path}: {error.message})") from error


def json_format(
    schema_registry: Mapping[str, object] | None = None,
    schema: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
) -> ValueFormat:
    """JSON, as `json.loads` and `json.dumps` have it, or with a schema registry as `JSONSerializer` has it.

    A format is an argument of `ReadFromKafka` (`value_deserializer`, `key_deserializer`) or of `WriteToKafka`
    (`value_serializer`, `key_serializer`). `Row`s, named tuples and dataclasses are written as objects, instants as
    RFC 3339 text; NaN and infinity are refused. A registry needs `pip install 'headrace[kafka,schema-registry]'`.

    >>> json_format().write({"points": 5}, Place("scores", "value"))
    b'{"points": 5}'

    Args:
        schema_registry: Settings of the registry's client, at least `url`; None for JSON without a registry.
        schema: The JSON schema to write with, which is registered; None for reading by the writer's schema.
        settings: Settings of confluent-kafka's `JSONSerializer` or `JSONDeserializer`.

    Raises:
        ImportError: What a registry needs is not installed.
        TypeError: `schema_registry` has no address, or the schema has a wrong type.
        ValueError: The settings are refused, the schema is no JSON schema, or it is given without a registry.
    """
    if schema_registry is not None:
        require_registry_package()
        _check_json_schema(schema)
        return RegistryJson(checked_registry(schema_registry), cast("Schema | None", schema), settings or {})
    if schema is not None or settings is not None:
        raise ValueError("JSON is checked against a schema by a registry only; give schema_registry, or leave it out")
    return PlainJson()


def avro_format(
    schema_registry: Mapping[str, object] | None = None,
    schema: Schema | None = None,
    settings: Mapping[str, object] | None = None,
) -> ValueFormat:
    """Avro, with a schema registry as `AvroSerializer` has it, or the bytes of a value of one schema alone.

    A format is used as that of `json_format` is. Each value is checked against `schema` before it is written.

    >>> schema = {"type": "record", "name": "Score", "fields": [{"name": "points", "type": "long"}]}
    >>> avro_format(schema=schema).write({"points": 5}, Place("scores", "value")).hex()
    '0a'

    Args:
        schema_registry: Settings of the registry's client, at least `url`; None for Avro without a registry.
        schema: The schema to write with, which is registered, or that values are read as; None for reading by the
            writer's schema, which the registry knows. Without a registry it must be given.
        settings: Settings of confluent-kafka's `AvroSerializer` or `AvroDeserializer`.

    Raises:
        ImportError: fastavro, or what a registry needs, is not installed.
        TypeError: `schema_registry` has no address, or the schema has a wrong type.
        ValueError: The settings are refused, or the schema is none of Avro.
    """
    if schema_registry is not None:
        require_registry_package()
    require_package("fastavro")
    known = None if schema is None else checked_schema(schema)
    if schema_registry is not None:
        return RegistryAvro(checked_registry(schema_registry), known, settings or {})
    if known is None:
        raise ValueError("Avro has neither a schema nor a registry that knows it; give schema, or schema_registry")
    return PlainAvro(known)
