"""Beam's own tests of pipelines, with only the package's name changed: those of what was added for them."""

from tests.beam.renamed import classes, local  # noqa: F401 - a fixture

PipelineTest, DoFnTest = classes(
    "pipeline_test",
    "PipelineTest",
    "DoFnTest",
    only="PipelineTest.test_visit_entire_graph DoFnTest.test_context_params",
)
