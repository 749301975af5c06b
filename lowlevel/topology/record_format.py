"""Record formats: a stream that declares one takes only values of that type (MillWheel paper §4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.topology.nodes import Keyed


def check_format(node: Keyed, stream: str, values: Sequence[object]) -> None:
    """Raise `StepError` for the first value that is not of the format of the computation's output stream."""
    record_type = node.formats.get(stream)
    if record_type is None or set(map(type, values)) == {record_type}:
        return
    for value in values:
        if not isinstance(value, record_type):
            raise StepError(
                node.name,
                None,
                value,
                f"stream {stream!r} takes records of type {record_type.__name__}, not {type(value).__name__}; "
                "produce that type or change the format in the topology",
            )
