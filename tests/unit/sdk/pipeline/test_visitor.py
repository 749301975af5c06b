"""What `Pipeline.visit` shows of a pipeline, in which order."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.pipeline import AppliedPTransform, PipelineVisitor
from headrace.pvalue import AsList, PCollection


class Notes(PipelineVisitor):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.nodes: dict[str, AppliedPTransform] = {}

    def _note(self, what: str, node: AppliedPTransform) -> None:
        self.notes.append(f"{what} {node.full_label}".rstrip())
        self.nodes[node.full_label] = node

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        self._note("enter", transform_node)

    def leave_composite_transform(self, transform_node: AppliedPTransform) -> None:
        self._note("leave", transform_node)

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        self._note("step", transform_node)

    def visit_value(self, value: object, producer_node: AppliedPTransform) -> None:
        assert isinstance(value, PCollection)
        assert value.producer is producer_node.step
        self._note(f"value {value.tag}", producer_node)


@beam.ptransform_fn
def Both(pair):
    return {"a": pair[0] | "A" >> beam.Map(str), "b": pair[1] | "B" >> beam.Map(str)}


@beam.ptransform_fn
def Same(values):
    return values


def seen(pipeline: beam.Pipeline) -> Notes:
    visitor = Notes()
    pipeline.visit(visitor)
    return visitor


def test_values_follow_their_steps_and_parts_are_inside() -> None:
    pipeline = beam.Pipeline("LocalRunner")
    one, two = pipeline | "One" >> beam.Create([1]), pipeline | "Two" >> beam.Create([2])
    both = (one, two) | Both()
    _ = both["a"] | Same()
    found = seen(pipeline)
    assert found.notes == [
        *("enter", "step One", "value None One", "step Two", "value None Two"),
        *("enter Both", "step Both/A", "value None Both/A", "step Both/B", "value None Both/B", "leave Both"),
        *("enter Same", "leave Same", "leave"),
    ]
    node = found.nodes["Both"]
    assert (node.main_inputs, node.inputs) == ({"0": one, "1": two}, (one, two))
    assert node.outputs == both
    assert [part.full_label for part in node.parts] == ["Both/A", "Both/B"]
    assert node.parts[0].parent is node
    assert node.parent is found.nodes[""]
    assert found.nodes[""].transform is None


def test_tags_and_side_inputs() -> None:
    pipeline = beam.Pipeline("LocalRunner")
    one, two = pipeline | "One" >> beam.Create([1]), pipeline | "Two" >> beam.Create([2])
    step = beam.FlatMap(lambda value, others: [value, *others], AsList(two))
    outputs = one | "Step" >> step.with_outputs("told", main="main")
    late = one | "Open" >> beam.FlatMap(lambda value: [value]).with_outputs()
    looked_up = late.more
    found = seen(pipeline)
    assert found.nodes["Step"].outputs == {None: outputs.main, "told": outputs.told}
    [side] = found.nodes["Step"].side_inputs
    assert side.pvalue is two
    assert found.nodes["Open"].outputs["more"] is looked_up
    assert "value more Open" in found.notes


def test_what_writes_is_a_step(tmp_path) -> None:  # type: ignore[no-untyped-def]  # a fixture of pytest
    pipeline = beam.Pipeline("LocalRunner")
    _ = pipeline | beam.Create(["a"]) | beam.io.WriteToText(tmp_path / "out")
    assert "step WriteToText" in seen(pipeline).notes


def test_a_step_that_fails_to_expand_is_over() -> None:
    pipeline = beam.Pipeline("LocalRunner")

    class Failing(beam.PTransform):
        def expand(self, inputs):
            raise KeyError("no")

    with pytest.raises(KeyError):
        pipeline | Failing()
    _ = pipeline | beam.Create([1])
    assert seen(pipeline).nodes["Create"].parent is seen(pipeline).nodes[""]


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match="PipelineVisitor"):
        beam.Pipeline("LocalRunner").visit(print)  # type: ignore[arg-type]  # what is refused
