"""What: collections of values from the program (`apache_beam.Create`)."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import cast

from headrace.lowlevel.injectors.injector import BoundedInjector, Delivery
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP, Timestamp
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.model.row import Row
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.sdk.transforms.core.low_level import Source
from headrace.sdk.typehints.consistency import type_of_all
from headrace.sdk.typehints.hints import element


class Create(Source):
    """A collection of the given values.

    The timestamp of an element is the least timestamp, unless the element is given as a `TimestampedValue`.

    Args:
        values: The elements; the items of a dict.
        reshuffle: Accepted for compatibility with Beam, without effect: elements are spread over the workers anyway.

    Raises:
        TypeError: `values` is a str or bytes, or cannot be iterated over.

    >>> Create({"a": 1}).values
    (('a', 1),)
    """

    def __init__(self, values: Iterable[object], reshuffle: bool = True) -> None:
        super().__init__()
        if isinstance(values, (str, bytes)):
            raise TypeError(f"Create takes an iterable of elements, not text; write Create([{values!r:.80}])")
        if not isinstance(values, Iterable):
            raise TypeError(f"Create takes an iterable of elements, got {values!r:.80} of type {type(values).__name__}")
        self.values = tuple(values.items() if isinstance(values, Mapping) else values)

    def expand(self, inputs: PBegin) -> PCollection[object]:
        """A collection in the global window. Raises `TypeError` for an element that cannot be sent to the workers."""
        output = super().expand(inputs)
        for example in {type(value): value for value in self.values}.values():
            try:
                pickle.dumps(example)
            except Exception as error:
                raise TypeError(
                    f"step {inputs.pipeline.current_label!r}: element {example!r:.80} of type {type(example).__name__} "
                    f"cannot be pickled ({error}); make it in a step, of what can be"
                ) from error
        return output

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        return element(type_of_all([timestamped(value)[0] for value in self.values]))

    def injector(self) -> BoundedInjector:
        """An injector of the values and their timestamps."""
        return _ElementsInjector([timestamped(value) for value in self.values])


class CreateKnownBy(Create):
    """A collection by whose other values, not its elements, it is known that a program has changed.

    Encodings may differ from process to process, as those of sets of text do; a directory may follow from the place of
    the checkpoint.

    Args:
        elements: The elements.
        values: As many values, which are the same if the program is.
    """

    def __init__(self, elements: Iterable[object], values: Iterable[object]) -> None:
        super().__init__(elements)
        self._known_by = list(values)

    def injector(self) -> BoundedInjector:
        """See `Create`."""
        return _ElementsInjector(super().injector().rows, [timestamped(value) for value in self._known_by])


_MARKED = 16
"""Elements before a position by which a changed list of elements is known."""
_MARKED_AT_END = 10_000
"""Elements before the end of the list, of which the mark is made once."""


@named("BoundedInjector")
class _ElementsInjector(BoundedInjector):
    """An injector that refuses to go on if the elements that it has delivered are no longer those of the program.

    Positions are pairs of the number of delivered elements and a mark of the last of them; those of 0.1.0 have the
    number only.

    Args:
        rows: See `BoundedInjector`.
        told: The rows of which marks are made; None for the rows themselves.
    """

    def __init__(self, rows: list[tuple[object, int]], told: list[tuple[object, int]] | None = None) -> None:
        super().__init__(rows)
        self._told = self.rows if told is None else told

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """See `Injector`. Raises `ValueError` for other elements before the position."""
        number, mark = position if isinstance(position, tuple) else (position, "")
        if mark and self._mark(number) != mark:
            raise ValueError(
                f"the elements of Create were changed before element {number + 1}, with which the run goes on: some "
                "would be read twice, or not at all. Put the earlier elements back, add new ones at the end, or have "
                "all of these read: give the step another label, and start once with --allow_removed and this one"
            )
        delivery = super().plan(number, limit, splits)
        end = cast(int, delivery.position)
        return replace(delivery, position=(end, self._mark(end, _MARKED_AT_END if delivery.done else _MARKED)))

    def unread(self, position: object) -> str | None:
        """See `BaseInjector`."""
        number, mark = position if isinstance(position, tuple) else (position, "")
        if number != len(self.rows):
            return super().unread(number)
        # The mark of an end may have been made by a version that told all positions by the last few elements.
        if mark in ("", self._mark(number, _MARKED_AT_END), self._mark(number)):
            return None
        return "its elements are no longer those that it had when its input ended"

    def _mark(self, number: int, most: int = _MARKED) -> str:
        last = repr([_shown(row) for row in self._told[max(0, number - most) : number]])
        return sha256(last.encode("utf-8", "surrogatepass")).hexdigest()[:16] if number else ""


def _shown(value: object) -> object:
    """What of a value is equal in each process: the class alone for classes without a `repr` that is certain to be."""
    if isinstance(value, (tuple, list)):
        return [_shown(item) for item in value]
    if isinstance(value, Row):
        value = value.as_dict()
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        return [(_shown(key), _shown(item)) for key, item in value.items()]
    plain = isinstance(value, (int, float, str, bytes, Timestamp, date, Decimal)) or value is None
    return repr(value) if plain else type(value).__qualname__


class Impulse(Source):
    """A collection with one element, `b""`, from which a `DoFn` can start to compute elements in a worker.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Impulse() | beam.Map(print)
    b''
    """

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        return bytes

    def injector(self) -> BoundedInjector:
        """An injector of the one element."""
        return BoundedInjector([(b"", MIN_TIMESTAMP)])


def timestamped(value: object, otherwise: int = MIN_TIMESTAMP) -> tuple[object, int]:
    """The value of an element and its timestamp in microseconds UTC, which is `otherwise` for a plain value."""
    if isinstance(value, TimestampedValue):
        return value.value, value.timestamp.micros
    return value, otherwise
