"""The error for type hints that are not consistent (`apache_beam.typehints.TypeCheckError`)."""

from __future__ import annotations

from headrace.lowlevel.errors import HeadraceError


class TypeCheckError(HeadraceError, TypeError):
    """Two type hints are not consistent; the message names both types and both steps.

    The error is raised while the pipeline is built, so nothing has run.

    >>> import headrace as beam
    >>> def length(line: str) -> int:
    ...     return len(line)
    >>> _ = beam.Pipeline("LocalRunner") | "Numbers" >> beam.Create([5]) | "Length" >> beam.Map(length)
    Traceback (most recent call last):
      ...
    headrace.sdk.typehints.errors.TypeCheckError: ...
    """
