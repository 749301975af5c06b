"""What: functions with a life cycle that can take many elements at once, as columns."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.sdk.functions.do_fn import DoFn


class ColumnDoFn(DoFn):
    """A `DoFn` that is given columns where elements come so, all in the global window and without panes."""

    def take_columns(self, batch: ColumnBatch) -> Iterable[object] | None:
        """The outputs that `process` would give for all elements, at the timestamp of the first.

        None, and nothing has changed then, if `process` is to get the elements.
        """
        raise NotImplementedError
