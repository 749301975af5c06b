"""Ways to cut the elements of one step into bundles."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from tests.transcripts.transcript import Transcript

Elements = Sequence[tuple[str, int, int]]
Bundling = Callable[[Elements], list[Elements]]


def as_given(elements: Elements) -> list[Elements]:
    return [elements]


def reversed_(elements: Elements) -> list[Elements]:
    return [elements[::-1]]


def shuffled(elements: Elements) -> list[Elements]:
    return [random.Random(len(elements)).sample(elements, len(elements))]


def by_time(elements: Elements) -> list[Elements]:
    return [sorted(elements, key=itemgetter(2))]


def one_by_one(elements: Elements) -> list[Elements]:
    return [[element] for element in elements]


def one_by_one_backwards(elements: Elements) -> list[Elements]:
    return [[element] for element in reversed(elements)]


def halves(elements: Elements) -> list[Elements]:
    middle = len(elements) // 2
    return [half for half in (elements[middle:], elements[:middle]) if half]


ALWAYS: Mapping[str, Bundling] = {"given": as_given, "reversed": reversed_, "by time": by_time, "shuffled": shuffled}
"""A bundle is one occasion for a trigger, whatever the order in it."""
FREE: Mapping[str, Bundling] = {"singles": one_by_one, "backwards": one_by_one_backwards, "halves": halves}
"""Where bundles make no difference."""


def bundlings(transcript: Transcript) -> dict[str, Bundling]:
    """The bundlings under which a transcript holds."""
    return {**ALWAYS, **FREE} if transcript.free else dict(ALWAYS)
