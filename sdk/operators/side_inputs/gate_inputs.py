"""What gates receive: the main input by shard, and in every shard the panes and the watermark of each side input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Self, cast
from zlib import crc32

from headrace.lowlevel.class_lookup import dumps
from headrace.lowlevel.coders.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named, stored_as
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.computation import BundleComputation, Context, InlineComputation
from headrace.lowlevel.topology.timer import Timer
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.side_inputs.seen_views import element_hash
from headrace.sdk.operators.side_inputs.window_mapping import next_ready
from headrace.sdk.windows import BoundedWindow
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

SHARDS = 8
"""Number of keys over which the main input of a gate is distributed. Checkpoints depend on it: do not change it."""
SHARD_KEYS = tuple(f"shard {number}" for number in range(SHARDS))
_REMEMBERED = 10_000
_DIRECT = (str, int)
"""Types whose equal values have equal encodings."""
_REACHED = "reached"
"""Tag of the timer that waits for the next time at which a window may be known to be empty."""


@stored_as("SideView")
class SideView(NamedTuple):
    """The contents of a side window as of its latest pane."""

    code: bytes
    """The encoded window."""
    version: bytes
    """Hash of the contents."""
    data: bytes
    """The values, pickled for state."""

    @classmethod
    def of(cls, code: bytes, values: object, pane: PaneInfo) -> Self:
        """The view of a pane; a retraction gives an empty view, which is valid until the next pane."""
        data = dumps([] if pane.is_retraction else values)
        return cls(code, blake2b(data, digest_size=16).digest(), data)


@stored_as("SideProgress")
class SideWatermark(NamedTuple):
    """The watermark of a side input."""

    watermark: int
    """Low watermark of the side input, microseconds UTC: panes that are due before it have been sent."""


Message = SideView | SideWatermark


@named("Sharding")
class Sharding(InlineComputation):
    """Adds a shard to each element (in the form WINDOWED).

    Pairs are distributed by key, so that the elements of a key stay in order; other elements are distributed evenly.

    Args:
        output: Stream of pairs (shard, element).
        key_coder: Key coder of the topology.
        takes_back: Whether elements may be retractions, which must have the shards of the elements that they retract.
    """

    def __init__(self, output: str, key_coder: KeyCoder = STANDARD_KEYS, takes_back: bool = False) -> None:
        self._output, self._key_coder, self._takes_back = output, key_coder, takes_back
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
        if self._takes_back:
            return SHARD_KEYS[element_hash(value)[0] % SHARDS]
        return SHARD_KEYS[at % SHARDS]

    def _remember(self, key: object) -> str:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        shard = self._known[key] = self._shard_of(key)
        return shard

    def _shard_of(self, key: object) -> str:
        return SHARD_KEYS[crc32(identity_of(self._key_coder.encode(key))) % SHARDS]


def no_key(value: object) -> None:
    """Return None, which is the key of all elements of a side input."""


@named("SideGrouping")
class SideGrouping(BundleComputation):
    """Groups all elements of a side input by window, and sends the watermark when a window may be known to be empty.

    Args:
        windowing: Windowing of the side input; its trigger determines when a view is replaced.
        streams: Input stream -> form of its elements.
        begin: Input stream with one record, which arrives even if there are no elements.
        output: Stream of the panes, in the form of a grouping's output, and of `SideWatermark`.
        takes_back: Whether elements may be retractions.
        readers: Steps that have the side input; a step that is added later would wait for views that were sent before.
    """

    def __init__(
        self,
        windowing: Windowing,
        streams: Mapping[str, GroupingInputForm],
        begin: str,
        output: str,
        takes_back: bool = False,
        readers: Sequence[str] = (),
    ) -> None:
        self._grouping = Grouping(windowing, None, streams, output, takes_back)
        self._windowing, self._begin, self._output = windowing, begin, output
        self._readers = tuple(readers)

    def state_signature(self) -> Mapping[str, str]:
        """The signature of the grouping, and the steps that receive its views."""
        return {**self._grouping.state_signature(), "readers": ", ".join(self._readers)}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Add elements to their windows."""
        if stream == self._begin:
            self._watch(context)
        else:
            pairs = [(None, value) for value in batch.values]
            self._grouping.process_batch(stream, Batch(pairs, batch.timestamps), context)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Send the watermark, or pass the timer to the grouping."""
        if timer.tag == _REACHED:
            context.produce(self._output, SideWatermark(context.watermark))
            self._watch(context)
        else:
            self._grouping.process_timer(timer, context)

    def finish_key(self, context: Context) -> None:
        """Send the panes."""
        self._grouping.finish_key(context)

    def _watch(self, context: Context) -> None:
        due = next_ready(self._windowing, context.watermark)
        if due is not None:
            context.set_timer(_REACHED, due)


@named("Tell")
class Tell(InlineComputation):
    """Sends the outputs of a `SideGrouping` to every shard.

    Args:
        windowing: Windowing of the side input.
        output: Stream of pairs (shard, message).
    """

    def __init__(self, windowing: Windowing, output: str) -> None:
        self._namespaces, self._output = WindowNamespaces(windowing), output

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Send each message to every shard, at `MAX_TIMESTAMP`: messages hold no watermark and are never late."""
        messages = [self._message(value) for value in batch.values]
        pairs = [(shard, message) for message in messages for shard in SHARD_KEYS]
        emit(self._output, Batch(pairs, [MAX_TIMESTAMP] * len(pairs)))

    def _message(self, value: object) -> Message:
        if isinstance(value, SideWatermark):
            return value
        (_, values), window, pane = cast("tuple[tuple[None, object], BoundedWindow, PaneInfo]", value)
        return SideView.of(self._namespaces.of_window(window).code, values, pane)
