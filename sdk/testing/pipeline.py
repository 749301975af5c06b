"""A pipeline for tests (`apache_beam.testing.test_pipeline`)."""

from __future__ import annotations

from headrace.sdk.options import PipelineOptions
from headrace.sdk.pipeline import Pipeline
from headrace.sdk.running import Runner


class TestPipeline(Pipeline):
    """A `Pipeline` whose run is over when `run` returns, and that fails with what fails in it.

    Args:
        runner: As for `Pipeline`.
        options: As for `Pipeline`.
        argv: As for `Pipeline`.
        is_integration_test: Accepted for Beam's sake.
        blocking: Accepted for Beam's sake: a run always blocks.

    >>> from headrace.sdk.testing.assertions import assert_that, equal_to
    >>> from headrace.sdk.transforms.create import Create
    >>> with TestPipeline("LocalRunner") as pipeline:
    ...     _ = assert_that(pipeline | Create([1, 2]), equal_to([2, 1]))
    """

    # To pytest a class of this name is a test.
    __test__ = False

    def __init__(
        self,
        runner: Runner | str | None = None,
        options: PipelineOptions | None = None,
        argv: list[str] | None = None,
        is_integration_test: bool = False,
        blocking: bool = True,
    ) -> None:
        super().__init__(runner, options, argv)

    def get_pipeline_options(self) -> PipelineOptions:
        """The options."""
        return self.options
