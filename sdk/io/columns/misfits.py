"""Messages for values that Arrow does not take for a type: which value of a column it is, why, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

CONVERSION_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError)
"""What Arrow raises for Python values that have no common type, or do not fit one."""
_types = pa.types
_OTHERWISE = "map it to a value of this type before, or give the column another type"
_PARSED = (
    (_types.is_integer, "int(...)"),
    (_types.is_floating, "float(...)"),
    (_types.is_decimal, "decimal.Decimal(...)"),
    (_types.is_date, "datetime.date.fromisoformat(...)"),
    (_types.is_timestamp, "datetime.datetime.fromisoformat(...)"),
    (_types.is_time, "datetime.time.fromisoformat(...)"),
)
"""Types, and what makes their values of text."""


class Misfit(NamedTuple):
    """A value that does not fit."""

    path: str
    """The column, with the field or item within the value, such as `sale.price` or `prices[2]`."""
    value: object
    kind: pa.DataType
    reason: str
    """What Arrow says."""

    def __str__(self) -> str:
        return (
            f"{self.value!r:.80} ({type(self.value).__name__}) does not fit in column {self.path!r} of type "
            f"{self.kind}: {self._explained()}"
        )

    def _explained(self) -> str:
        """Why the value does not fit, and the remedy."""
        if isinstance(self.value, str) and (parse := next((make for is_of, make in _PARSED if is_of(self.kind)), None)):
            return f"it is text; make a value of the column's type of it before, with {parse}"
        if _types.is_decimal(self.kind) and (explained := self._decimal()):
            return explained
        if _types.is_integer(self.kind) and type(self.value) is int:
            bounds = np.iinfo(self.kind.to_pandas_dtype())
            return f"the column holds {bounds.min} to {bounds.max}; give it a wider type, or map the value before"
        if _types.is_string(self.kind) or _types.is_large_string(self.kind):
            if isinstance(self.value, str):
                return "it has characters that UTF-8 does not have; replace them before"
            return "it is no text; make text of it before, with str(...), or give the column another type"
        if _types.is_boolean(self.kind):
            return "it is no truth value; make one of it before, with bool(...), or give the column another type"
        if isinstance(self.value, (datetime, timedelta)) and getattr(self.kind, "unit", "") == "ns":
            return "nanoseconds of 64 bits end in the year 2262 (292 years); give the column the unit 'us'"
        return f"{self.reason}; {_OTHERWISE}"

    def _decimal(self) -> str | None:
        if isinstance(self.value, float):
            return "it is a float; make a decimal of it before, with decimal.Decimal(str(...)), rounded to the scale"
        if isinstance(self.value, int):
            value = Decimal(self.value)
        elif isinstance(self.value, Decimal):
            value = self.value
        else:
            return None
        if not value.is_finite():
            return "no column of decimals has it; map it to None before"
        _, digits, exponent = value.as_tuple()
        behind, room = max(-cast(int, exponent), 0), self.kind.precision - self.kind.scale
        if behind > self.kind.scale:
            return (
                f"it has {behind} digits behind the point, and the column has a scale of {self.kind.scale}; round it "
                f"before, with .quantize(decimal.Decimal({str(Decimal(1).scaleb(-self.kind.scale))!r})), or give the "
                "column a greater scale"
            )
        return (
            f"it has {max(len(digits) + cast(int, exponent), 1)} digits before the point, and the column has room for "
            f"{room} (precision {self.kind.precision}, scale {self.kind.scale}); give the column a greater precision"
        )


def misfit(path: str, values: Iterable[object], kind: pa.DataType) -> Misfit | None:
    """The first of some values of a column that does not fit a type; None if Arrow takes each alone."""
    for value in values:
        try:
            pa.array([value], kind)
        except CONVERSION_ERRORS as error:
            return _within(path, value, kind) or Misfit(path, value, kind, str(error))
    return None


def _within(path: str, value: object, kind: pa.DataType) -> Misfit | None:
    """The part of a value of a nested type that does not fit."""
    if _types.is_struct(kind) and isinstance(value, Mapping):
        found = (misfit(f"{path}.{field.name}", [value.get(field.name)], field.type) for field in kind)
        return next(filter(None, found), None)
    if _types.is_map(kind):
        pairs = [*value.items()] if isinstance(value, Mapping) else value
        if not isinstance(pairs, Sequence) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return None
        keys = misfit(f"{path}.keys", (key for key, _ in pairs), kind.key_type)
        found = (misfit(f"{path}[{key!r:.40}]", [item], kind.item_type) for key, item in pairs)
        return keys or next(filter(None, found), None)
    if _types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind):
        items = value if isinstance(value, (list, tuple)) else ()
        found = (misfit(f"{path}[{index}]", [item], kind.value_type) for index, item in enumerate(items))
        return next(filter(None, found), None)
    return None


def no_type(path: str, value: object, reason: Exception, otherwise: str) -> str:
    """The message for a value of which Arrow has no type at all; `otherwise` is what helps for most."""
    remedy = otherwise
    if isinstance(value, Decimal) and not value.is_finite():
        remedy = "map it to None before"
    elif isinstance(value, (int, Decimal)):
        remedy = f"map it to text or to a float before, or {otherwise}"
    return f"field {path!r} has the value {value!r:.80}, for which Arrow infers no type ({reason}); {remedy}"
