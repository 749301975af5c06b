"""Time zones of Spark sessions by the names that Arrow and Python have for them.

Spark gives a `TIMESTAMP` to Python as an instant with the name of the session's time zone
(`spark.sql.session.timeZone`). Java knows more names than Arrow: its rules are those of `java.time.ZoneId.of` with
`ZoneId.SHORT_IDS`, and Spark adds `+h:mm` and `+hh:m` (`SparkDateTimeUtils.getZoneId`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from headrace.lowlevel.columnar.pyarrow_private import zone_of

_SHORT = {
    **{"ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires"},
    **{"ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka"},
    **{"CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai"},
    **{"EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00"},
    **{"IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia"},
    **{"MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi"},
    **{"PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles"},
    **{"SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "Z": "UTC", "UT": "UTC"},
}
"""Java's short names, and two more of its own, with what they mean."""
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?(\d\d?))?(?::?(\d\d))?")


def arrow_zone(name: str) -> str:
    """The name in Arrow of a session's time zone.

    An offset with seconds, which Arrow does not have, becomes UTC: the instants stay the same.

    Raises:
        ValueError: Python does not know the zone.

    >>> [arrow_zone(name) for name in ("PST", "+8", "GMT-03:30", "Z", "Asia/Tokyo")]
    ['America/Los_Angeles', '+08:00', '-03:30', 'UTC', 'Asia/Tokyo']
    """
    name = _SHORT.get(name, name)
    if (offset := _OFFSET.fullmatch(name)) is not None:
        sign, hours, minutes, seconds = offset.groups("0")
        is_zero = not (int(hours) or int(minutes))
        return "UTC" if is_zero or int(seconds) else f"{sign}{int(hours):02}:{int(minutes):02}"
    try:
        zone_of(name)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"Python does not know the session's time zone {name!r}; install a newer tzdata and pytz, or set "
            "spark.sql.session.timeZone to another name of the zone"
        ) from error
    return name


def in_arrow_zones(table: pa.Table) -> pa.Table:
    """The table with its instants, nested ones too, in the same time zones by the names that Arrow has.

    Raises `ValueError` as `arrow_zone` does.

    >>> in_arrow_zones(pa.table({"at": pa.array([0], pa.timestamp("us", "PST"))})).schema.types
    [TimestampType(timestamp[us, tz=America/Los_Angeles])]
    """
    kinds = [_kind(field.type) for field in table.schema]
    if kinds == table.schema.types:
        return table
    return table.cast(pa.schema(_fields(list(table.schema), kinds)))


def _kind(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, arrow_zone(kind.tz))
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(*_fields([kind.value_field], [_kind(kind.value_type)]))
    if types.is_map(kind):
        return pa.map_(*_fields([kind.key_field, kind.item_field], [_kind(kind.key_type), _kind(kind.item_type)]))
    if types.is_struct(kind):
        return pa.struct(_fields(list(kind), [_kind(field.type) for field in kind]))
    return kind


def _fields(fields: Sequence[pa.Field], kinds: Sequence[pa.DataType]) -> list[pa.Field]:
    return [field.with_type(kind) for field, kind in zip(fields, kinds, strict=True)]
