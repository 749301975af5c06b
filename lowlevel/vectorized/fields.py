"""Fields of state and timers. They have fixed widths, so the state of many keys is one array (MillWheel paper §4.4).

The stored state of a key is the concatenation of its fields in the order of declaration; numbers are little-endian.
Fields may be added behind the others: state that was stored without them has their defaults.
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
microseconds, or binary of a fixed width. A numpy value of fixed-width binary loses zero bytes at its end, although they
are stored. If values may end in zero bytes, produce `pa.array(values, pa.binary(width))`."""

_PLAIN: dict[object, pa.DataType] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_CODES = {pa.int64(): "<i8", pa.float64(): "<f8", pa.bool_(): "?"}


@dataclass(frozen=True, slots=True)
class Field:
    """The type and default of a field.

    >>> Field(int, -1).of_type()
    DataType(int64)
    """

    kind: Kind
    default: object = None
    """The value for a new key; None means zero, False, or zero bytes."""

    def of_type(self) -> pa.DataType:
        """The Arrow type of the field. Raises TypeError for an unsupported type, such as one without a fixed width."""
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
        """The numpy type of the field's arrays; timestamps are int64, microseconds UTC. Raises TypeError."""
        kind = self.of_type()
        if pa.types.is_fixed_size_binary(kind):
            return cast("np.dtype[np.generic]", np.dtype(f"S{kind.bit_width // 8}"))
        return cast("np.dtype[np.generic]", np.dtype(_CODES.get(kind, "<i8")))

    def __str__(self) -> str:
        return f"{self.of_type()}" if self.default is None else f"{self.of_type()}, {self.default!r} at first"


Declared: TypeAlias = "Mapping[str, Kind | Field]"
"""Name -> type of each declared field."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of fields in bytes.

    >>> layout = Layout.of({"total": int, "least": Field(float, 1.5)}, "state_fields of Totals")
    >>> layout.decode([None, layout.defaults.tobytes()])["least"].tolist()
    [1.5, 1.5]
    """

    fields: Mapping[str, Field]
    dtype: np.dtype[np.void]
    defaults: np.ndarray[tuple[int], np.dtype[np.void]]
    """A structured array of length 1 with the default of each field."""

    @classmethod
    def of(cls, declared: Declared, where: str) -> Layout:
        """The layout of declared fields; `where` stands for the declaration in messages.

        Raises TypeError for an invalid name, type or default, ValueError for a default of a wrong shape.
        """
        fields: dict[str, Field] = {}
        for name, kind in declared.items():
            fields[name] = kind if isinstance(kind, Field) else Field(kind)
            try:
                if not str(name).isidentifier():
                    raise TypeError("its name must be a Python identifier, as it becomes the name of an argument")
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
        """Decode the stored state of keys; None for a key without stored state.

        Returns:
            A structured array of the same length, which may be changed.

        Raises:
            CheckpointError: The state of a key is longer than the fields.
        """
        defaults, size = self.defaults.tobytes(), self.dtype.itemsize
        whole = [defaults if data is None else data for data in stored]
        if set(map(len, whole)) - {size}:
            whole = [self._completed(data, defaults) for data in whole]
        # A copy, because arrays over bytes are read-only.
        return np.frombuffer(b"".join(whole), self.dtype, len(whole)).copy()

    def _completed(self, data: bytes, defaults: bytes) -> bytes:
        """Append the defaults of fields that did not exist when the state was stored."""
        if len(data) > len(defaults):
            raise CheckpointError(
                f"a key has {len(data)} bytes of state where the fields {', '.join(self.fields)} take {len(defaults)}; "
                "run the program that stored it"
            )
        return data + defaults[len(data) :]

    def signature(self, prefix: str) -> dict[str, str]:
        """Aspects of the state signature: prefix and index of each field -> its name, type and default."""
        return {f"{prefix} {index}": f"{name} {field}" for index, (name, field) in enumerate(self.fields.items())}


def fitted(values: object, field: Field, size: int, label: str) -> Column:
    """Convert values to an array of a field's type and of length `size`; one value is repeated.

    Raises TypeError if the type cannot be converted safely, ValueError for a wrong shape or nulls; `label` stands for
    the values in messages.

    >>> fitted(7, Field(int), 2, "x").tolist()
    [7, 7]
    """
    array, dtype = as_array(values, label), field.dtype()
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]").astype(np.int64)
    if array.ndim == 0:
        array = np.broadcast_to(array, size)
    if array.ndim != 1:
        raise ValueError(f"{label} has {array.ndim} dimensions; give one value for each, or one for all")
    if len(array) != size:
        raise ValueError(f"{label} has {len(array)} values instead of {size}; give one for each, or one for all")
    if array.dtype == dtype:
        return array
    if not np.can_cast(array.dtype, dtype, "safe") and not (len(array) == 0 and array.dtype == np.float64):
        raise TypeError(f"{label} is of type {array.dtype}, not {field.of_type()}; convert it, as with .astype()")
    return array.astype(dtype)


def as_array(values: object, label: str) -> Column:
    """Convert values to a numpy array; Arrow timestamps become int64, microseconds UTC. Raises ValueError for nulls."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if values.null_count:
            raise ValueError(
                f"{label} has {values.null_count} nulls, which are not allowed; replace them with fill_null()"
            )
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us")).cast(pa.int64())
        return cast(Column, np.asarray(values))
    return cast(Column, np.asarray(values))
