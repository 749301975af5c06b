"""What: merging of the accumulators in lines by key and window, and extraction of results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.lowlevel.columnar.key_columns import Flags, Numbers, first_indices
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.operators.combining.aggregates import LARGEST_SUM, Reducers
from headrace.sdk.operators.vectorized.state.window_table import COUNT, EmittedResult, WindowTable, emptied


@dataclass(frozen=True, slots=True)
class Accumulated:
    """Merges lines: as columns where they express the results, else by the CombineFn."""

    reducers: Reducers
    combine: AnyCombineFn

    def reduced(self, lines: WindowTable, context: IntervalContext) -> WindowTable:
        """One line for each key and window, with the sum of `COUNT` and the merged contents of its lines.

        Merged lines are ordered by the ends, then the starts, of their windows; if there was nothing to merge, the
        result is `lines`.

        The other columns are those of the first line of the key and window. Accumulators are merged in the order of the
        lines. Raises StepError for errors of the CombineFn.
        """
        groups, count = lines.groups()
        if count == len(lines):
            return lines
        found = lines.taken(first_indices(groups, count))
        self.merge(found, lines, groups, context)
        return found

    def merge(self, target: WindowTable, parts: WindowTable, groups: Numbers, context: IntervalContext) -> None:
        """Replace the contents of each line of `target` with the merged contents of its parts.

        Args:
            target: Changed in place: `COUNT`, the columns that reducers keep, and `values`.
            parts: Lines in the order in which they are merged; parts with a `COUNT` of 0 are ignored.
            groups: Index in `target` for each part: int64.
            context: Reports errors.

        Raises:
            StepError: The CombineFn has raised an error.
        """
        holding = parts[COUNT] > 0
        if not holding.all():
            parts, groups = parts.where(holding), groups[holding]
        count = len(target)
        target[COUNT] = 0
        target.values = None
        np.add.at(target[COUNT], groups, parts[COUNT])
        by_value = self._by_value(parts, groups, count)
        chosen = by_value[groups]
        numbers = parts.where(~chosen)
        target.kept = self.reducers.reduced(groups[~chosen], count, numbers.kept)
        if chosen.any():
            self._merge_values(target, parts.where(chosen), groups[chosen], context)
        nothing = by_value | (target[COUNT] == 0)
        if nothing.any():
            target.kept = [emptied(column, nothing) for column in target.kept]

    def _by_value(self, parts: WindowTable, groups: Numbers, count: int) -> Flags:
        """Which groups are merged by the CombineFn: a part has a Python value, or a sum might not fit into 64 bits."""
        found, as_values = np.zeros(count, np.bool_), parts.as_values()
        found[groups[as_values]] = True
        if self.reducers.bound(parts.kept) >= LARGEST_SUM:
            for numbers in self.reducers.summed(parts.kept):
                if numbers is not None:
                    sizes = np.bincount(groups[~as_values], np.abs(numbers.astype(np.float64)), count)
                    found |= sizes >= LARGEST_SUM // 2
        return found

    def _merge_values(self, target: WindowTable, parts: WindowTable, groups: Numbers, context: IntervalContext) -> None:
        values = np.full(len(target), None, object)
        members: dict[int, list[object]] = {}
        for group, accumulator in zip(groups.tolist(), parts.accumulators(self.reducers), strict=True):
            members.setdefault(group, []).append(accumulator)
        for group, parts_of_group in members.items():
            try:
                values[group] = (
                    parts_of_group[0] if len(parts_of_group) == 1 else self.combine.merge_accumulators(parts_of_group),
                )
            except Exception as error:
                raise context.failed(error, target.keys[group].as_py()) from error
        target.values = values

    def results(self, lines: WindowTable, context: IntervalContext) -> list[object]:
        """The outputs of the CombineFn, one for each line; a line with a `COUNT` of 0 gives the output for no elements.

        Raises StepError for errors of the CombineFn.
        """
        made: list[object] = []
        counts, keys = lines[COUNT].tolist(), lines.keys.to_pylist()
        for key, count, accumulator in zip(keys, counts, lines.accumulators(self.reducers), strict=True):
            if isinstance(accumulator, EmittedResult):
                made.append(accumulator.value)
                continue
            try:
                made.append(self.combine.extract_output(accumulator if count else self.combine.create_accumulator()))
            except Exception as error:
                raise context.failed(error, key) from error
        return made

    def only_values(self, lines: WindowTable) -> Flags:
        """Which lines have results that columns do not express: bool, one entry for each line."""
        if not self.reducers.has_results(lines.kept):
            return np.ones(len(lines), np.bool_)
        found = lines.as_values()
        return found if self.reducers.has_outputs_of_none(lines.kept) else found | (lines[COUNT] == 0)
