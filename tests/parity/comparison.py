"""What differs between two results, after what Beam's direct runners are known to do their own way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.parity.canonical import Element
from tests.parity.corpus import Program
from tests.parity.worlds import Results


def differences(program: Program, theirs: Results, ours: Results) -> list[str]:
    """A line for each output or element that only one of the two has; `theirs` is Beam's."""
    found = [f"only {whose} output {name!r}" for whose, name in _one_sided(theirs, ours)]
    for output in theirs.keys() & ours.keys():
        left, right = theirs[output], ours[output]
        for mask in program.masks:
            left, right = mask.over(left, mask.only_beam), mask.over(right, mask.only_ours)
        if not program.streaming:
            left, right = map(in_milliseconds, left), map(in_milliseconds, right)
        found += [f"{output or 'result'}: {line}" for line in _unequal(left, right)]
    return found


def in_milliseconds(element: Element) -> Element:
    """An element after Beam's portable runner passed it on: its protos carry milliseconds, cut off towards 0."""
    whole = abs(element.timestamp_us) // 1000 * 1000
    return element._replace(timestamp_us=whole if element.timestamp_us >= 0 else -whole)


def _one_sided(theirs: Results, ours: Results) -> list[tuple[str, str]]:
    return [("Beam has", name) for name in theirs.keys() - ours.keys()] + [
        ("Headrace has", name) for name in ours.keys() - theirs.keys()
    ]


def _unequal(theirs: Iterable[Element], ours: Iterable[Element]) -> list[str]:
    """Elements without a partner.

    Beam's runners say that a pane is the last only if its trigger has finished (fact 5); ours also if its window
    closes with it. So an element of ours may be the last where its partner is not, never the other way round.
    """
    left, right = _lasts(theirs), _lasts(ours)
    lines = []
    for element in sorted(left.keys() | right.keys()):
        their_lasts, our_lasts = left[element], right[element]
        if len(their_lasts) != len(our_lasts) or any(map(bool.__gt__, sorted(their_lasts), sorted(our_lasts))):
            lines.append(f"{element}: is_last at Beam {their_lasts}, at Headrace {our_lasts}")
    return lines


def _lasts(elements: Iterable[Element]) -> defaultdict[Element, list[bool]]:
    """Elements but for `is_last`, each with the `is_last` of all its copies."""
    lasts: defaultdict[Element, list[bool]] = defaultdict(list)
    for element in elements:
        lasts[element._replace(pane=element.pane._replace(is_last=False))].append(element.pane.is_last)
    return lasts
