"""Beam's own tests of the types of tagged outputs, with only the package's name changed."""

from tests.beam.renamed import classes, local  # noqa: F401 - a fixture

# Its composite puts out collections that no step makes, which is refused when the pipeline runs.
_LEFT_OUT = "CompositeTaggedOutputInferenceTest.test_composite_pcollections_uses_tagged_type_hints"

(
    IOTypeHintsTaggedOutputTest,
    DecoratorStyleTaggedOutputTest,
    ChainStyleTaggedOutputTest,
    AnnotationStyleTaggedOutputTest,
    CompositeTaggedOutputInferenceTest,
) = classes(
    "typehints.tagged_output_typehints_test",
    *("IOTypeHintsTaggedOutputTest", "DecoratorStyleTaggedOutputTest", "ChainStyleTaggedOutputTest"),
    *("AnnotationStyleTaggedOutputTest", "CompositeTaggedOutputInferenceTest"),
    without=_LEFT_OUT,
)
