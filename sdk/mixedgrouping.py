"""Where: a grouping whose elements mostly, but not always, are in the windows that their timestamps give them."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lowlevel.computation import Context
from headrace.lowlevel.record import Batch
from headrace.sdk.arrivals import InputForm, sorter
from headrace.sdk.contents import Combiner
from headrace.sdk.grouping import Grouping
from headrace.sdk.windowing import Windowing


class MixedGrouping(Grouping):
    """A `Grouping` with several input streams that carry windows each in its own way.

    Args:
        windowing: As for `Grouping`.
        combine: As for `Grouping`.
        streams: Input stream -> how it carries windows. `LIFTED` does not go together with others.
        output_stream: As for `Grouping`.
        takes_back: As for `Grouping`; there is one stream then.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: Combiner | None,
        streams: Mapping[str, InputForm],
        output_stream: str,
        takes_back: bool = False,
    ) -> None:
        super().__init__(windowing, combine, next(iter(streams.values())), output_stream, takes_back)
        self._sorters = {stream: sorter(windowing, form, self._rules.frames) for stream, form in streams.items()}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Add the elements to their windows."""
        self._sort = self._sorters[stream]
        super().process_batch(stream, batch, context)
