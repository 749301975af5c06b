"""W7's ten steps, the same functions for every system that calls functions; the plain loop has them written out.

A mix of what pipelines do: take a field, parse, make types of text, filter, project, multiply, reckon, look up, and a
`DoFn` at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.generator import MINUTE

Line = dict[str, str]
Amount = tuple[str, int]
LEAST = 10
DISCOUNT_FROM = 200
DISCOUNT = 15
REGIONS = {number: f"region-{number:02d}" for number in range(12)}


def text_of(row: Line) -> str:
    """1, Map: the line itself."""
    return row["line"]


def fields_of(line: str) -> list[str]:
    """2, Map: its fields."""
    return line.split(",")


def typed(key: str, value: str, micros: str) -> tuple[str, int, int]:
    """3, MapTuple: numbers of text."""
    return key, int(value), int(micros)


def is_worthwhile(event: tuple[str, int, int]) -> bool:
    """4, Filter: nine in ten."""
    return event[1] > LEAST


def projected(key: str, value: int, micros: int) -> tuple[int, int, int]:
    """5, MapTuple: the key's number, the value, the minute of the hour."""
    return int(key[4:]), value, micros // MINUTE % 60


def halves(event: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """6, FlatMap: an even value counts twice."""
    number, value, minute = event
    if value % 2:
        return [event]
    return [event, (number, 101 - value, minute)]


def priced(number: int, value: int, minute: int) -> tuple[int, int]:
    """7, MapTuple: an amount of money."""
    return number, value * 3 + minute


def enriched(priced: tuple[int, int]) -> Amount:
    """8, Map: the region, from a table."""
    return REGIONS[priced[0] % 12], priced[1]


def is_odd_lot(sale: Amount) -> bool:
    """9, Filter: six in seven."""
    return sale[1] % 7 != 0


def discounted(sale: Amount) -> Iterator[Amount]:
    """10, what the `DoFn` does: large ones are cheaper."""
    region, amount = sale
    if amount >= DISCOUNT_FROM:
        yield region, amount - DISCOUNT
    else:
        yield sale
