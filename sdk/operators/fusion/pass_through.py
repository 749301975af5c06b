"""Pass-through: streams to which a stage sends whole batches without touching their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from headrace.sdk.model.element_form import ElementForm, always_one_window
from headrace.sdk.operators.fusion.stage_plan import Exit, StagePlan, WindowStep


def pass_through_exits(plan: StagePlan, node: int) -> list[Exit] | None:
    """The exits that plain elements of a collection reach unchanged; None if a step has to look at each element.

    A `WindowInto` changes nothing if the old windowing has one window per element and the new windows follow from
    the timestamp.
    """
    exits: list[Exit] = []
    for _, reader in plan.consumers(node):
        if isinstance(reader, Exit):
            if reader.form not in (None, ElementForm.PLAIN):
                return None
            exits.append(reader)
        elif isinstance(reader, WindowStep) and always_one_window(plan.windowings[node]):
            further = pass_through_exits(plan, reader.output)
            if (
                further is None
                or reader.output_form(ElementForm.PLAIN, plan.windowings[reader.output]) is not ElementForm.PLAIN
            ):
                return None
            exits += further
        else:
            return None
    return exits


def are_pairs(values: Sequence[object]) -> bool:
    """Whether every value is a tuple of length two, not of a subclass of tuple.

    >>> are_pairs([("a", 1), ("b", 2)]), are_pairs([("a", 1), ["b", 2]]), are_pairs(["ab"])
    (True, False, False)
    """
    return set(map(type, values)) <= {tuple} and set(map(len, cast("Sequence[tuple[object, ...]]", values))) <= {2}
