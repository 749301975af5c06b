"""Types of neighbouring steps compared while the pipeline is built (`apache_beam.pipeline.Pipeline.apply`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.sdk.options import TypeOptions
from headrace.sdk.pvalue import DoOutputsTuple, PCollection
from headrace.sdk.types.consistency import is_consistent_with
from headrace.sdk.types.errors import TypeCheckError
from headrace.sdk.types.hints import normal, shown, union

if TYPE_CHECKING:
    from headrace.sdk.pipeline import Step


_REMEDY = (
    "change one of them, state what is right with with_input_types(...) or with_output_types(...), "
    "or build with --no_pipeline_type_check"
)


def check_inputs(step: Step, inputs: object) -> None:
    """Refuse a step that takes other elements than those it is applied to.

    Raises:
        TypeCheckError: Both types and both steps are named.
    """
    # Asked in any case: once the function is shipped its annotations may lack the names that they use.
    wanted = step.transform.input_type()
    if not isinstance(inputs, PCollection) or not _enabled(inputs):
        return
    if not step.transform.takes(inputs.element_type):
        raise TypeCheckError(
            f"step {step.full_label!r} takes {shown(wanted)}, but {_origin(inputs)} puts out "
            f"{shown(normal(inputs.element_type))}; {_REMEDY}"
        )
    if problem := step.transform.argument_problem():
        raise TypeCheckError(f"step {step.full_label!r}: {problem}")


def type_outputs(step: Step, inputs: object, result: object) -> None:
    """Give a step's outputs their types: as stated, else as they follow from those of its input.

    Raises:
        TypeCheckError: A composite step states another type than the step inside it puts out.
    """
    from headrace.sdk.ptransform import collections_of

    transform = step.transform
    hint, tagged = transform.output_type()
    inferred = transform.infer_output_type(_type_of(inputs))
    values = result.all() if isinstance(result, DoOutputsTuple) else collections_of(result)
    for value in values:
        is_main = value is result or (isinstance(result, DoOutputsTuple) and value.tag is None)
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
        f"step {step.full_label!r} is said to put out {shown(normal(stated))}, but {_origin(value)}, which makes its "
        f"output, puts out {shown(normal(value.element_type))}; {_REMEDY}"
    )


def _type_of(inputs: object) -> object:
    """The type of the elements of all inputs together."""
    from headrace.sdk.ptransform import collections_of

    return union(normal(value.element_type) for value in collections_of(inputs))


def _enabled(value: PCollection[object]) -> bool:
    return value.pipeline.options.view_as(TypeOptions).pipeline_type_check


def _origin(value: PCollection[object]) -> str:
    return f"step {value.producer.full_label!r}" if value.producer else "its input"
