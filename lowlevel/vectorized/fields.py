"""Declared fields of keys' state and of timers: of fixed width, so that those of many keys are one array (paper §4.4).

What is stored of a key is its fields side by side in order of their declaration, numbers little-endian. Fields may be
added behind the others: what was stored without them has their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.errors import CheckpointError

Column: TypeAlias = "NDArray[np.generic]"
"""One value for each row or key."""
Kind: TypeAlias = "type[int] | type[float] | type[bool] | pa.DataType"
"""Type of a field: `int` (64 bits), `float`, `bool`, or an Arrow type: int64, float64, bool, a timestamp in
microseconds, or binary of a fixed width. What numpy gives as such a value has no zero bytes at its end, though they are
stored: where values may end in them, produce `pa.array(values, pa.binary(width))`."""

_PLAIN: dict[object, pa.DataType] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_CODES = {pa.int64(): "<i8", pa.float64(): "<f8", pa.bool_(): "?"}


@dataclass(frozen=True, slots=True)
class Field:
    """A field that is not zero at first.

    >>> Field(int, -1).of_type()
    DataType(int64)
    """

    kind: Kind
    default: object = None
    """Value that it has for a new key; None for zero, False, or zero bytes."""

    def of_type(self) -> pa.DataType:
        """The Arrow type. Raises `TypeError` for one whose values have no fixed width, or that is not known here."""
        kind = _PLAIN.get(self.kind, self.kind)
        if isinstance(kind, pa.DataType):
            if kind in _CODES or pa.types.is_fixed_size_binary(kind):
                return kind
            if pa.types.is_timestamp(kind) and kind.unit == "us":
                return kind
        raise TypeError(
            f"a field cannot be of type {self.kind!r}; use int, float, bool, or pyarrow's int64(), float64(), bool_(), "
            "timestamp('us'), binary(width)"
        )

    def dtype(self) -> np.dtype[np.generic]:
        """The type of its arrays; times are whole microseconds UTC."""
        kind = self.of_type()
        if pa.types.is_fixed_size_binary(kind):
            return cast("np.dtype[np.generic]", np.dtype(f"S{kind.byte_width}"))
        return cast("np.dtype[np.generic]", np.dtype(_CODES.get(kind, "<i8")))

    def __str__(self) -> str:
        return f"{self.of_type()}" if self.default is None else f"{self.of_type()}, {self.default!r} at first"


Declared: TypeAlias = "Mapping[str, Kind | Field]"
"""Names of fields and their types."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Fields as they lie in bytes.

    >>> layout = Layout.of({"total": int, "least": Field(float, 1.5)}, "state_fields of Totals")
    >>> layout.decode([None, layout.defaults.tobytes()])["least"].tolist()
    [1.5, 1.5]
    """

    fields: Mapping[str, Field]
    dtype: np.dtype[np.void]
    defaults: np.ndarray[tuple[int], np.dtype[np.void]]
    """One key's fields."""

    @classmethod
    def of(cls, declared: Declared, where: str) -> Layout:
        """The layout of declared fields. Raises `TypeError` naming `where` and the field that cannot be."""
        fields: dict[str, Field] = {}
        for name, kind in declared.items():
            fields[name] = kind if isinstance(kind, Field) else Field(kind)
            try:
                if not str(name).isidentifier():
                    raise TypeError("its name must be one that Python can have, as it is an argument's")
                fields[name].dtype()
            except TypeError as error:
                raise TypeError(f"{where}: field {name!r}: {error}") from None
        dtype = np.dtype([(name, field.dtype()) for name, field in fields.items()])
        defaults = np.zeros(1, dtype)
        for name, field in fields.items():
            if field.default is not None:
                defaults[name] = fitted(field.default, field, 1, f"{where}: the default of {name!r}")
        return cls(fields, dtype, defaults)

    def decode(self, stored: Sequence[bytes | None]) -> NDArray[np.void]:
        """What is stored of each key; None for a key of which nothing is."""
        nothing, size = self.defaults.tobytes(), self.dtype.itemsize
        whole = [nothing if data is None else data for data in stored]
        if set(map(len, whole)) - {size}:
            whole = [self._completed(data, nothing) for data in whole]
        # A copy, as it is going to be changed.
        return np.frombuffer(b"".join(whole), self.dtype, len(whole)).copy()

    def _completed(self, data: bytes, nothing: bytes) -> bytes:
        """What was stored when there were fewer fields."""
        if len(data) > len(nothing):
            raise CheckpointError(
                f"a key has {len(data)} bytes of state where the fields {', '.join(self.fields)} take {len(nothing)}; "
                "run the program that stored it"
            )
        return data + nothing[len(data) :]

    def signature(self, prefix: str) -> dict[str, str]:
        """What gives meaning to the bytes, by the places of the fields: so some can be added behind the others."""
        return {f"{prefix} {place}": f"{name} {field}" for place, (name, field) in enumerate(self.fields.items())}


def fitted(values: object, field: Field, size: int, what: str) -> Column:
    """Values as an array of a field's type; one value stands for all. Raises `TypeError` and `ValueError`.

    >>> fitted(7, Field(int), 2, "x").tolist()
    [7, 7]
    """
    array, dtype = as_array(values, what), field.dtype()
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]").astype(np.int64)
    if array.ndim == 0:
        array = np.broadcast_to(array, size)
    if array.ndim != 1:
        raise ValueError(f"{what} has {array.ndim} dimensions; give one value for each, or one for all")
    if len(array) != size:
        raise ValueError(f"{what} has {len(array)} values instead of {size}; give one for each, or one for all")
    if array.dtype == dtype:
        return array
    if not np.can_cast(array.dtype, dtype, "safe") and not (len(array) == 0 and array.dtype == np.float64):
        raise TypeError(f"{what} is of type {array.dtype}, and not {field.of_type()}; convert it, as with .astype()")
    return array.astype(dtype)


def as_array(values: object, what: str) -> Column:
    """Values as a numpy array; Arrow's may not have nulls. Raises `ValueError` for those."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if values.null_count:
            raise ValueError(f"{what} has {values.null_count} nulls, which it cannot; fill_null() gives them a value")
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us")).cast(pa.int64())
        return cast(Column, np.asarray(values))
    return cast(Column, np.asarray(values))
