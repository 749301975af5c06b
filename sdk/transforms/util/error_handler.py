"""What: one consumer for the bad elements of many steps (`apache_beam.transforms.error_handling`)."""

from __future__ import annotations

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.transforms.core.flatten import Flatten


class ErrorHandler:
    """Passes the bad elements of the steps in a `with` block to a transform; each step names it as `error_handler`.

    Args:
        consumer: Transform that is applied to the bad elements; None to only collect them.

    >>> from headrace.sdk.pipeline.pipeline import Pipeline
    >>> from headrace.sdk.transforms.core.create import Create
    >>> from headrace.sdk.transforms.core.par_do import Map
    >>> with Pipeline("LocalRunner") as pipeline:
    ...     with ErrorHandler(Map(lambda bad: print(bad[0], bad[1][1]))) as errors:
    ...         _ = pipeline | Create([1, 0]) | Map(lambda n: 1 / n).with_exception_handling(error_handler=errors)
    0 ZeroDivisionError('division by zero')
    """

    def __init__(self, consumer: PTransform[Collection, object] | None) -> None:
        self._consumer = consumer
        self._errors: list[Collection] = []
        self._output: object = None
        self._is_closed = False

    def __enter__(self) -> ErrorHandler:
        self._errors, self._is_closed = [], False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Apply the consumer to the bad elements of all steps so far. Raises `TopologyError` if there is no step."""
        if not self._errors:
            raise TopologyError("an ErrorHandler was closed with no step that names it; give it as error_handler=")
        errors = tuple(self._errors) | Flatten()
        self._output = errors if self._consumer is None else errors | self._consumer
        self._is_closed = True

    def output(self) -> object:
        """The output of the consumer. Raises `RuntimeError` before the handler is closed."""
        if not self._is_closed:
            raise RuntimeError("an ErrorHandler has no output before it is closed, at the end of its with block")
        return self._output

    def add_error_pcollection(self, errors: Collection) -> None:
        """Add the collection of the bad elements of a step."""
        errors.pipeline.checks.append(self.verify_closed)
        self._errors.append(errors)

    def verify_closed(self) -> None:
        """Raise RuntimeError if the handler is not closed; called before the pipeline runs."""
        if not self._is_closed:
            raise RuntimeError("an ErrorHandler was not closed, so bad elements would be lost; use it in a with block")


class CollectingErrorHandler(ErrorHandler):
    """Collects bad elements; the program must ask for them with `output()`.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     with CollectingErrorHandler() as handler:
    ...         numbers = pipeline | beam.Create(["3", "x"])
    ...         good = numbers | beam.Map(int).with_exception_handling(error_handler=handler)
    ...     _ = handler.output() | beam.Map(lambda bad: print(bad[0]))
    x
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._is_read = False

    def output(self) -> object:
        """The collection of all bad elements."""
        self._is_read = True
        return super().output()

    def verify_closed(self) -> None:
        """Raise RuntimeError if the output is not read; called before the pipeline runs."""
        if not self._is_read:
            raise RuntimeError("nothing reads the output() of a CollectingErrorHandler, so bad elements would be lost")
        super().verify_closed()
