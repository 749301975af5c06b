"""Labels of a pipeline of Beam as the engine has them: without the lines of lambdas, and without addresses.

Beam writes a lambda in a default label as its file and line, so that an edit of other lines would change the names
under which a checkpoint keeps state. Errors and metrics have the labels that Beam has given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import cast

import apache_beam
from apache_beam.pipeline import AppliedPTransform

from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.graph.pipeline_graph import AlikeStep, closure_of
from headrace.sdk.graph.pvalue import Alike
from headrace.sdk.model.labels import has_function_without_name, label_of, place_of, without_addresses
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.pipeline.runner_choice import Runner

_ARGUMENTS = ("args", "kwargs", "_args", "_kwargs")
"""The attributes in which transforms of Beam keep further arguments of functions."""
_DEPTH = 6
"""How deep in a transform functions are looked for."""


class StableLabels:
    """The labels of a graph of Beam, and those that the engine has for them.

    Args:
        root: The graph's root.
    """

    def __init__(self, root: AppliedPTransform) -> None:
        self._stable = {"": ""}
        self._alike: dict[str, tuple[Alike, ...]] = {"": ()}
        self._groups: dict[str, list[AlikeStep]] = {}
        self._taken: set[str] = set()
        for part in root.parts:
            self._add(part, "")
        self._beams = {stable: label for label, stable in self._stable.items()}

    def of(self, label: str) -> tuple[str, tuple[Alike, ...]]:
        """The engine's label for one of Beam's, which may have more at its end, and the steps of it that are alike."""
        known = _longest(label, self._stable)
        return self._stable[known] + label[len(known) :], self._alike[known]

    def beams(self, label: str) -> str:
        """Beam's label for one of the engine's, which may have more at its end."""
        known = _longest(label, self._beams)
        return self._beams[known] + label[len(known) :]

    def _add(self, step: AppliedPTransform, around: str) -> None:
        own = step.full_label[len(around) + 1 :] if around else step.full_label
        is_default = step.transform is not None and own == step.transform.label
        text = _stable_text(own, step.transform) if is_default else own
        label = wanted = "/".join(filter(None, [self._stable[around], text]))
        alike = self._alike[around]
        if is_default and has_function_without_name(text):
            group = self._groups.setdefault(wanted, [])
            given = [vars(step.transform).get(name) for name in _ARGUMENTS]
            functions = list(_functions(step.transform, _DEPTH, {}))
            group.append(AlikeStep(group, [functions, given], partial(self._before, step)))
            alike = (*alike, group[-1])
            number = 1
            while label in self._taken:
                number += 1
                label = f"{wanted}_{number}"
        self._taken.add(label)
        self._stable[step.full_label], self._alike[step.full_label] = label, alike
        for part in step.parts:
            self._add(part, step.full_label)

    def _before(self, step: AppliedPTransform) -> set[str]:
        found, open_steps = set[str](), [step]
        while open_steps:
            for value in open_steps.pop().inputs:
                producer = getattr(value, "producer", None)
                if producer is not None and (label := self.of(producer.full_label)[0]) not in found:
                    found.add(label)
                    open_steps.append(producer)
        return found


class TranslatedPipeline(Pipeline):
    """A pipeline whose steps are those of a graph of Beam.

    Args:
        runner: The runner of the engine.
        options: The engine's options.
        labels: The labels of the graph.
    """

    def __init__(self, runner: Runner, options: PipelineOptions, labels: StableLabels) -> None:
        super().__init__(runner, options)
        self._stable_labels = labels

    def _outermost(self, label: str) -> tuple[str, tuple[Alike, ...]]:
        """See `PipelineGraph`."""
        return self._stable_labels.of(label)


def _longest(label: str, known: Mapping[str, str]) -> str:
    """The longest beginning of a label that is known and ends where the label of a step may end."""
    ends = [*(place for place, letter in enumerate(label) if letter in "/#"), len(label)]
    return next((label[:end] for end in reversed(ends) if label[:end] in known), "")


def _stable_text(label: str, transform: apache_beam.PTransform) -> str:
    """A default label with functions as `label_of` names them."""
    for function in _functions(transform, _DEPTH, {}):
        text = _beams_text(function)
        # The label of a composite made of a function has long arguments in this form.
        shortened = f"{text[:10]}...{text[-6:]}"
        # A function of which the label says nothing may have no name at all: that of a class with source code fails.
        if text in label or shortened in label:
            label = label.replace(text, label_of(function)).replace(shortened, label_of(function))
    return without_addresses(label)


def _beams_text(function: Callable[..., object]) -> str:
    """What Beam writes for a function in a default label."""
    return place_of(function) if isinstance(function, FunctionType) else str(function)


def _functions(value: object, depth: int, seen: dict[int, object]) -> Iterator[Callable[..., object]]:
    """The functions without names in a transform."""
    if depth == 0 or id(value) in seen or isinstance(value, (type, str, bytes, int, float, apache_beam.Pipeline)):
        return
    seen[id(value)] = value
    is_lambda = isinstance(value, FunctionType) and value.__name__ == "<lambda>"
    is_of_beam = isinstance(value, (apache_beam.PTransform, apache_beam.DoFn, apache_beam.PCollection))
    if is_lambda or (callable(value) and not is_of_beam and not hasattr(value, "__name__")):
        yield cast("Callable[..., object]", value)
    for part in _parts(value):
        yield from _functions(part, depth - 1, seen)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, dict):
        return value.values()
    # Beam wraps functions in others.
    closure = closure_of(value) if isinstance(value, FunctionType) else ()
    return [*closure, *getattr(value, "__dict__", {}).values()]
