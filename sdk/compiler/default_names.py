"""What tells steps apart whose default labels are equal, because their functions are alike and have no names.

Such labels are numbered in the order of the program, so a step that is added, moved or removed changes the numbers of
others. A checkpoint keeps the description of the step beside its stored data, and refuses the data to another step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256
from types import FunctionType

from headrace.lowlevel.topology.topology import UNSHARED
from headrace.sdk.graph.pvalue import BasePipeline, PValue, Step
from headrace.sdk.model.labels import label_of

_DEPTH = 8
"""How deep in an object values are looked for."""


def default_names(steps: Iterable[Step], names: Iterable[str]) -> dict[str, str]:
    """Computation or injector -> which one it is of those with its default label; see `Topology.default_names`.

    Args:
        steps: The primitive steps of a pipeline.
        names: The names of computations and injectors; each begins with the label of its step.

    >>> import headrace as beam
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | beam.Create([("a", 1)]) | beam.CombinePerKey(lambda values: max(values))
    >>> default_names(pipeline.steps, ["Create", "CombinePerKey(<lambda values: max(values)>)"])
    {'CombinePerKey(<lambda values: max(values)>)': '1 of 1'}
    """
    alike = {step.full_label: step.alike for step in steps if step.alike}
    found = {}
    for name in names if alike else ():
        ends = [*(place for place, letter in enumerate(name) if letter in "/#"), len(name)]
        label = next((name[:end] for end in reversed(ends) if name[:end] in alike), None)
        if label is not None:
            which = [_which(step, group) for step, group in alike[label] if len(group) > 1]
            found[name] = "; ".join(which) or UNSHARED
    return found


def _which(step: Step, group: list[Step]) -> str:
    described = [*sorted(_labels_before(step)), *_values(step.transform, _DEPTH, {})]
    digest = sha256(repr(described).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{group.index(step) + 1} of {len(group)}, {digest}"


def _labels_before(step: Step) -> set[str]:
    """The labels of all steps from which elements come to a step."""
    found, open_steps = set[str](), [step]
    while open_steps:
        for value in open_steps.pop().inputs:
            if value.producer is not None and value.producer.full_label not in found:
                found.add(value.producer.full_label)
                open_steps.append(value.producer)
    return found


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
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:
                # A variable that is not assigned yet.
                yield None
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from (key, each)
    else:
        yield from vars(value).items() if hasattr(value, "__dict__") else [getattr(value, "__name__", "")]
