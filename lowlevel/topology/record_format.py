"""Record formats: a stream that declares one takes values of that type only (MillWheel paper §4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.topology import Keyed


def check_format(place: Keyed, stream: str, values: Sequence[object]) -> None:
    """Raises `StepError` for the first value that is not of the format of the computation's output stream."""
    wanted = place.formats.get(stream)
    if wanted is None or set(map(type, values)) == {wanted}:
        return
    for value in values:
        if not isinstance(value, wanted):
            raise StepError(
                place.name,
                None,
                value,
                f"stream {stream!r} takes records of type {wanted.__name__}, not {type(value).__name__}; "
                "produce that type or change the format in the topology",
            )
