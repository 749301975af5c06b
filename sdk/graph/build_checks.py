"""Checks of a step while the pipeline is built: the types of neighbouring steps, and the input of a stateful step.

Beam checks the types in the same place (`apache_beam.pipeline.Pipeline.apply`).
"""

from __future__ import annotations

from typing import Any, get_args, get_origin

from headrace.lowlevel.errors import TopologyError
from headrace.options.pipeline_options import TypeOptions
from headrace.sdk.graph.ptransform import SomeTransform, collections_of
from headrace.sdk.graph.pvalue import DoOutputsTuple, PCollection, Step
from headrace.sdk.typehints.consistency import is_consistent_with
from headrace.sdk.typehints.hints import normal, type_name, union
from headrace.sdk.typehints.io_type_hints import TypeCheckError

_NEVER_PAIRS = (str, bytes, int, float, bool, list, dict, set, frozenset, type(None))
_REMEDY = (
    "change one of them, state what is right with with_input_types(...) or with_output_types(...), "
    "or build with --no_pipeline_type_check"
)


def check_inputs(step: Step, transform: SomeTransform, inputs: object) -> None:
    """Refuse a step whose input has elements of another type than it takes.

    Raises:
        TypeCheckError: The types differ; both types and both steps are named.
    """
    # Evaluated in any case: after shipping, the names in the annotations of a function may be missing.
    input_type = transform.input_type()
    if not isinstance(inputs, PCollection) or not _enabled(inputs):
        return
    if not transform.takes(inputs.element_type):
        raise TypeCheckError(
            f"step {step.full_label!r} takes {type_name(input_type)}, but {_origin(inputs)} puts out "
            f"{type_name(normal(inputs.element_type))}; {_REMEDY}"
        )
    if problem := transform.argument_problem():
        raise TypeCheckError(f"step {step.full_label!r}: {problem}")


def type_outputs(step: Step, transform: SomeTransform, inputs: object, result: object) -> None:
    """Set the element types of a step's outputs: as stated, else inferred from its input.

    Raises:
        TypeCheckError: A composite step states another type than the step inside it puts out.
    """
    hint, tagged = transform.output_type()
    inferred = transform.infer_output_type(union(normal(value.element_type) for value in collections_of(inputs)))
    values = result.all() if isinstance(result, DoOutputsTuple) else collections_of(result)
    for value in values:
        # A value of a dict may be made of the outputs of an inner step, which has types of its own.
        is_own = isinstance(result, DoOutputsTuple) or (isinstance(result, dict) and value.producer is step)
        is_main = value is result or (is_own and value.tag is None)
        stated = tagged.get(value.tag, hint if is_main else None)
        if stated is not None:
            _check_output(step, value, stated)
            value.element_type = stated
        elif is_main and value.element_type is Any:
            value.element_type = inferred
    if values and values[0].pipeline.options.view_as(TypeOptions).runtime_type_check:
        kinds = {value.tag: normal(value.element_type) for value in values if value.producer is step}
        transform.check_elements(kinds)


def _check_output(step: Step, value: PCollection[object], stated: object) -> None:
    if value.producer is step or not _enabled(value) or is_consistent_with(value.element_type, stated):
        return
    raise TypeCheckError(
        f"step {step.full_label!r} is said to put out {type_name(normal(stated))}, but {_origin(value)}, which makes "
        f"its output, puts out {type_name(normal(value.element_type))}; {_REMEDY}"
    )


def _enabled(value: PCollection[object]) -> bool:
    return value.pipeline.options.view_as(TypeOptions).pipeline_type_check


def _origin(value: PCollection[object]) -> str:
    return f"step {value.producer.full_label!r}" if value.producer else "its input"


def check_stateful_input(inputs: PCollection[object], step: str) -> None:
    """Refuse windows that merge, and elements that are known to be no pairs (key, value).

    Raises:
        TopologyError: The message names the step.
    """
    window_fn = inputs.windowing.window_fn
    if window_fn.is_merging():
        raise TopologyError(
            f"step {step!r} keeps state for each key and window, but its input is in {window_fn}, whose windows merge; "
            "put it into windows that do not, such as FixedWindows, or into the global window with WindowInto"
        )
    if never_pairs(inputs.element_type):
        raise TopologyError(
            f"step {step!r} keeps state for each key, but the elements of its input are of type "
            f"{inputs.element_type!r}, not pairs (key, value); make pairs of them with Map first"
        )


def never_pairs(hint: object) -> bool:
    """Whether a type hint rules out that elements are pairs.

    >>> never_pairs(tuple[str, int]), never_pairs(None), never_pairs(int), never_pairs(tuple[int, int, int])
    (False, False, True, True)
    """
    origin = get_origin(hint)
    if origin is tuple:
        return len(get_args(hint)) != 2
    kind = origin or hint
    return isinstance(kind, type) and issubclass(kind, _NEVER_PAIRS)
