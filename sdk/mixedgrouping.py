"""Where: a grouping whose elements mostly, but not always, are in the windows that their timestamps give them."""

from __future__ import annotations

from headrace.lowlevel.computation import Context
from headrace.lowlevel.record import Batch
from headrace.sdk.arrivals import InputForm, sorter
from headrace.sdk.contents import Combiner
from headrace.sdk.grouping import Grouping
from headrace.sdk.windowing import Windowing


class MixedGrouping(Grouping):
    """A `Grouping` of plain elements with a second input stream, of elements that carry their windows."""

    def __init__(self, windowing: Windowing, combine: Combiner | None, output_stream: str, spare: str) -> None:
        super().__init__(windowing, combine, InputForm.PLAIN, output_stream)
        self._spare = spare
        self._sort_plain = self._sort
        self._sort_windowed = sorter(windowing, InputForm.WINDOWED, self._rules.frames)

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Add the elements to their windows."""
        self._sort = self._sort_windowed if stream == self._spare else self._sort_plain
        super().process_batch(stream, batch, context)
