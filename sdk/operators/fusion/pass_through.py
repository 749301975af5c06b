"""Stages that do nothing to their elements: whole batches pass through as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from headrace.sdk.fusion.plan import Exit, Form, StagePlan, WindowStep, always_one_window


def passed_on(plan: StagePlan, node: int) -> list[Exit] | None:
    """Where plain elements of a collection go if nothing is done to them on the way; None if something is.

    New windows are nothing, as long as they follow from the timestamp and there was one before.
    """
    exits: list[Exit] = []
    for _, reader in plan.consumers(node):
        if isinstance(reader, Exit):
            if reader.form not in (None, Form.PLAIN):
                return None
            exits.append(reader)
        elif isinstance(reader, WindowStep) and always_one_window(plan.windowings[node]):
            further = passed_on(plan, reader.output)
            if further is None or reader.output_form(Form.PLAIN, plan.windowings[reader.output]) is not Form.PLAIN:
                return None
            exits += further
        else:
            return None
    return exits


def are_pairs(values: Sequence[object]) -> bool:
    """Whether every value is a tuple of two.

    >>> are_pairs([("a", 1), ("b", 2)]), are_pairs([("a", 1), ["b", 2]]), are_pairs(["ab"])
    (True, False, False)
    """
    return set(map(type, values)) <= {tuple} and set(map(len, cast("Sequence[tuple[object, ...]]", values))) <= {2}
