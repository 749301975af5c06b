"""A record with named fields (`apache_beam.Row`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

from headrace.lowlevel.stored_names import stored_as


@stored_as("Row")
class Row:
    """Named values, read as attributes.

    >>> flight = Row(carrier="UA", delay=2)
    >>> flight.carrier, flight == Row(carrier="UA", delay=2), flight
    ('UA', True, Row(carrier='UA', delay=2))
    >>> flight._fields, flight._asdict()
    (('carrier', 'delay'), {'carrier': 'UA', 'delay': 2})
    """

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)

    @classmethod
    def of(cls, fields: dict[str, object]) -> Self:
        """A row whose fields are the dict itself, not a copy."""
        row = cls.__new__(cls)
        row.__dict__ = fields
        return row

    def as_dict(self) -> dict[str, object]:
        """The fields, as name -> value, in a new dict."""
        return dict(self.__dict__)

    _asdict = as_dict

    def __setstate__(self, fields: dict[str, object]) -> None:
        # Without `__setstate__`, unpickling would call `__getattr__` for each row and build its error message.
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> object:
        # Python calls `__getattr__` only for a name that is not a field.
        if name == "_fields":
            return tuple(self.__dict__)
        raise AttributeError(f"row has no field {name!r}; it has {', '.join(self.__dict__) or 'none'}")

    def __iter__(self) -> Iterator[object]:
        return iter(self.__dict__.values())

    def __eq__(self, other: object) -> bool:
        # The order of the fields counts, as in Beam.
        return (
            isinstance(other, Row)
            and self.__dict__ == other.__dict__
            and (len(self.__dict__) < 2 or list(self.__dict__) == list(other.__dict__))
        )

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.items()))

    def __key_state__(self) -> tuple[tuple[str, object], ...]:
        """The state that represents the row as a key."""
        return tuple(self.__dict__.items())

    @classmethod
    def __of_key_state__(cls, state: Iterable[tuple[str, object]]) -> Self:
        """The row that `__key_state__` gave this state for."""
        return cls.of(dict(state))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
