"""What: distribution of the main input of a step with side inputs over the shards of its gate."""

from __future__ import annotations

from typing import cast
from zlib import crc32

from headrace.lowlevel.coders.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import InlineComputation
from headrace.sdk.operators.side_inputs.messages import SHARD_KEYS, SHARDS

_REMEMBERED = 10_000
_DIRECT = (str, int)
"""Types whose equal values have equal encodings."""


@named("Sharding")
class Sharding(InlineComputation):
    """Adds a shard to each element (in the form WINDOWED).

    Pairs are distributed by key, so that the elements of a key stay in order; other elements are distributed evenly.

    Args:
        output: Stream of pairs (shard, element).
        key_coder: Key coder of the topology.
    """

    def __init__(self, output: str, key_coder: KeyCoder = STANDARD_KEYS) -> None:
        self._output, self._key_coder = output, key_coder
        self._known: dict[object, str] = {}

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Send the elements of a batch with their shards."""
        elements = cast("list[tuple[object, object, object]]", batch.values)
        spread = [(self._shard(element[0], at), element) for at, element in enumerate(elements)]
        emit(self._output, Batch(spread, batch.timestamps))

    def _shard(self, value: object, at: int) -> str:
        if isinstance(value, tuple) and len(value) == 2:
            key = value[0]
            if type(key) in _DIRECT:
                return self._known.get(key) or self._remember(key)
            try:
                return self._shard_of(key)
            except KeyEncodingError:
                # No grouping accepts such a key, so that the order of its elements does not matter.
                pass
        return SHARD_KEYS[at % SHARDS]

    def _remember(self, key: object) -> str:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        shard = self._known[key] = self._shard_of(key)
        return shard

    def _shard_of(self, key: object) -> str:
        return SHARD_KEYS[crc32(identity_of(self._key_coder.encode(key))) % SHARDS]
