"""What: what lines hold, put together by key and window, and as results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.sdk.columns.lines import COUNT, KEPT, Lines
from headrace.sdk.columns.reducers import LARGEST_SUM, Reducer, Reducers
from headrace.sdk.columns.sessions import Flags
from headrace.sdk.contents import Combiner

_EMPTY_IS_ZERO = frozenset([Reducer.SUM, Reducer.COUNT])


@dataclass(frozen=True, slots=True)
class Accumulated:
    """How lines are combined: as numbers where that is exact, else by the CombineFn."""

    reducers: Reducers
    combine: Combiner

    def merge(self, target: Lines, parts: Lines, groups: Numbers, context: IntervalContext) -> None:
        """Let each line of `target` hold what the parts of its number do; these are in the order of their coming."""
        holding = parts[COUNT] > 0
        if not holding.all():
            parts, groups = parts.where(holding), groups[holding]
        count = len(target)
        target.numbers[KEPT:] = 0
        target[COUNT] = 0
        target.values = None
        np.add.at(target[COUNT], groups, parts[COUNT])
        by_value = self._by_value(parts, groups, count)
        chosen = by_value[groups]
        numbers = parts.where(~chosen)
        for place, column in enumerate(self.reducers.reduced(groups[~chosen], count, numbers.kept)):
            target.numbers[KEPT + place] = column
        if chosen.any():
            self._merge_values(target, parts.where(chosen), groups[chosen], context)
        target.numbers[KEPT:, by_value | (target[COUNT] == 0)] = 0

    def _by_value(self, parts: Lines, groups: Numbers, count: int) -> Flags:
        """Which groups are combined as Python values: if a part is one, or a sum might not fit into 64 bits."""
        found = np.zeros(count, np.bool_)
        found[groups[parts.as_values()]] = True
        if self.reducers.bound(parts.kept) >= LARGEST_SUM:
            for place, column in zip(self.reducers.kept, parts.kept, strict=True):
                if self.reducers.parts[place].adds:
                    sizes = np.bincount(groups, np.abs(column.astype(np.float64)), count)
                    found |= sizes >= LARGEST_SUM // 2
        return found

    def _merge_values(self, target: Lines, parts: Lines, groups: Numbers, context: IntervalContext) -> None:
        values = np.full(len(target), None, object)
        members: dict[int, list[object]] = {}
        for group, accumulator in zip(groups.tolist(), self.accumulators(parts), strict=True):
            members.setdefault(group, []).append(accumulator)
        for group, its in members.items():
            try:
                values[group] = (its[0] if len(its) == 1 else self.combine.merge_accumulators(its),)
            except Exception as error:
                raise context.failed(error, target.keys[group].as_py()) from error
        target.values = values

    def accumulators(self, lines: Lines) -> list[object]:
        """As the CombineFn has them; for lines that hold something."""
        made = self.reducers.accumulators(lines.kept, lines[COUNT])
        if lines.values is None:
            return made
        return [
            number if value is None else value[0] for number, value in zip(made, lines.values.tolist(), strict=True)
        ]

    def results(self, lines: Lines, context: IntervalContext) -> list[object]:
        """What the CombineFn makes of what lines hold, or of nothing."""
        made: list[object] = []
        counts, keys = lines[COUNT].tolist(), lines.keys.to_pylist()
        for key, count, accumulator in zip(keys, counts, self.accumulators(lines), strict=True):
            try:
                made.append(self.combine.extract_output(accumulator if count else self.combine.create_accumulator()))
            except Exception as error:
                raise context.failed(error, key) from error
        return made

    def only_values(self, lines: Lines) -> Flags:
        """Which lines have results that columns of numbers do not give."""
        found = lines.as_values()
        if not _EMPTY_IS_ZERO.issuperset(self.reducers.parts):
            found |= lines[COUNT] == 0
        return found
