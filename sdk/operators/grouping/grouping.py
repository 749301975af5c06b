"""When and how for one key: the computation behind `GroupByKey` and `CombinePerKey` (Streaming 102).

The first element of a window opens it; a timer waits for its end. Elements of a bundle are added, then the trigger is
asked once. When the watermark reaches the end of the window, the trigger is asked again and the timer is set to the
closing, which comes after the allowed lateness. At the closing the rest is emitted and the state of the window is
deleted. A window that opens and closes in one bundle never touches storage.

The output watermark is held at the timestamp of the next pane if it could pass that timestamp. If panes have the
timestamp of their window's end, a hold is needed only for a window that has ended without its pane: before the end, the
input watermark is below that timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import BundleComputation, Context, IntervalContext
from headrace.lowlevel.topology.timer import Timer
from headrace.sdk.combinefns.accumulators import Combiner
from headrace.sdk.combinefns.combiner_kind import combiner_signature
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.grouping_config import GroupingConfig
from headrace.sdk.operators.grouping.key_bundle import KeyBundle
from headrace.sdk.operators.grouping.window_assignment import sorter
from headrace.sdk.windows.state_signature import windowing_signature
from headrace.sdk.windows.windowing import Windowing

StateMigration: TypeAlias = Callable[[GroupingConfig, Combiner | None, IntervalContext], None]
"""Stores the windows that the vectorized implementation has for an interval as the records of a `Grouping`."""


@named("Grouping")
class Grouping(BundleComputation):
    """Groups the values of each key and window, or combines them, and emits the panes.

    Values of the input are pairs of key and payload; those of the output are triples: the pair of key and result, its
    window and its `PaneInfo`.

    Args:
        windowing: Windows, trigger, accumulation mode and allowed lateness.
        combine: The CombineFn; None to group the values into lists.
        input_forms: Form of the payloads of each input stream, or one form for all of them. A form of accumulators
            (`LIFTED`, `SHARDED`) excludes the forms of values.
        output_stream: Stream of the panes.
        takes_back: Whether the input may have retractions, which are in streams of the form `WINDOWED`. A retraction
            removes the element that it retracts.
        migration: Takes over the state of a vectorized grouping; None if this grouping is never vectorized.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: Combiner | None = None,
        input_forms: GroupingInputForm | Mapping[str, GroupingInputForm] = GroupingInputForm.PLAIN,
        output_stream: str = "grouped",
        takes_back: bool = False,
        migration: StateMigration | None = None,
    ) -> None:
        self._combine = combine
        self._output_stream = output_stream
        self._migration = migration
        forms = {None: input_forms} if isinstance(input_forms, GroupingInputForm) else input_forms
        self._config = GroupingConfig.of(windowing, combine, next(iter(forms.values())), takes_back)
        self._sorters = {stream: sorter(windowing, form, self._config.namespaces) for stream, form in forms.items()}
        """Input stream (None: all streams) -> the sorter of its records."""
        self._retracting = {each for each, form in forms.items() if takes_back and form is GroupingInputForm.WINDOWED}
        """The streams that may have retractions."""
        self._sort_retractions = sorter(windowing, GroupingInputForm.WINDOWED, self._config.namespaces)
        self._bundle: KeyBundle | None = None
        """The bundle of the key that the worker processes."""

    def setup(self) -> None:
        """Set the CombineFn up."""
        if self._combine is not None:
            self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        if self._combine is not None:
            self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether the teardown of the CombineFn does anything."""
        return self._combine is not None and self._combine.has_teardown()

    def state_signature(self) -> Mapping[str, str]:
        """Windows, trigger, combiner, and the kind of the windows' contents."""
        contents = {"contents": self._config.contents.kind}
        return {**windowing_signature(self._config.windowing), **combiner_signature(self._combine), **contents}

    def take_over(self, context: IntervalContext) -> None:
        """Store the state of a vectorized grouping as records of this one."""
        if self._migration is not None:
            self._migration(self._config, self._combine, context)

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Add the elements to their windows."""
        known = stream if stream in self._sorters else None
        self._bundle_of(context).add(batch, self._sorters[known], known in self._retracting)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Process the end, the closing or the wall time of a window."""
        self._bundle_of(context).fire(timer)

    def finish_key(self, context: Context) -> None:
        """Process windows that end or close within the bundle, send the panes, store the windows that stay."""
        bundle = self._bundle
        if bundle is not None and bundle.context is context:
            bundle.finish(self._output_stream)
            self._bundle = None

    def _bundle_of(self, context: Context) -> KeyBundle:
        """The bundle of the context's key; a new one at the first call for the key."""
        bundle = self._bundle
        if bundle is None or bundle.context is not context:
            bundle = self._bundle = KeyBundle(self._config, self._sort_retractions, context)
        return bundle
