"""Steps whose default labels are equal, because their functions are alike and have no names.

Such labels are numbered in the order of the program, so a step that is added, moved or removed changes the numbers of
others. A checkpoint keeps the description of a step beside its stored data, and refuses the data to another step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from types import FunctionType

from headrace.sdk.graph.pvalue import BasePipeline, PValue, Step
from headrace.sdk.model.labels import label_of, without_addresses

_DEPTH = 8
"""How deep in an object values are looked for."""


@dataclass(eq=False, slots=True)
class AlikeStep:
    """A step whose default label has a function without a name.

    >>> group = []
    >>> for factor in (2, 3):
    ...     group.append(AlikeStep(group, {"factor": factor}, lambda: ["Create"]))
    >>> [step.description()[:7] for step in group], AlikeStep([], None, list).description()
    (['1 of 2,', '2 of 2,'], None)
    """

    group: list[AlikeStep]
    """All steps with this default label, in the order of the program."""
    transform: object
    before: Callable[[], Iterable[str]]
    """Gives the labels of all steps from which elements come."""

    def description(self) -> str | None:
        """The number of the step in its group, and a digest of its input and values; None if it is the only one."""
        if len(self.group) < 2:
            return None
        described = [*sorted(self.before()), *_values(self.transform, _DEPTH, {})]
        digest = sha256(repr(described).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return f"{self.group.index(self) + 1} of {len(self.group)}, {digest}"


def labels_before(step: Step) -> set[str]:
    """The labels of all steps from which elements come to a step."""
    found, open_steps = set[str](), [step]
    while open_steps:
        for value in open_steps.pop().inputs:
            if value.producer is not None and value.producer.full_label not in found:
                found.add(value.producer.full_label)
                open_steps.append(value.producer)
    return found


def closure_of(function: FunctionType) -> Iterator[object]:
    """The values of the variables of outer functions; None for one that is not assigned yet."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield None


def _values(value: object, depth: int, seen: dict[int, object]) -> Iterator[str]:
    """The plain values in an object, as in closures and defaults of its functions, by which it differs from others."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield repr(value)
    elif isinstance(value, PValue):
        yield "" if value.producer is None else value.producer.full_label
    elif isinstance(value, type) or depth == 0 or id(value) in seen or isinstance(value, BasePipeline):
        yield getattr(value, "__qualname__", type(value).__qualname__)
    elif isinstance(value, (set, frozenset)):
        yield from sorted(",".join(_values(each, depth - 1, seen)) for each in value)
    else:
        # The object is kept, so that no other one gets its id.
        seen[id(value)] = value
        for part in _parts(value):
            yield from _values(part, depth - 1, seen)


def _parts(value: object) -> Iterator[object]:
    yield type(value)
    if isinstance(value, FunctionType):
        yield label_of(value)
        yield from (value.__defaults__, value.__kwdefaults__)
        yield from closure_of(value)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from (key, each)
    elif slots := [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]:
        yield from (getattr(value, name, None) for name in slots)
        yield from getattr(value, "__dict__", {}).items()
    else:
        # Numbers, dates, patterns and the like are known by their text only.
        yield from vars(value).items() if hasattr(value, "__dict__") else [without_addresses(repr(value))]
