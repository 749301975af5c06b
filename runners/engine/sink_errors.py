"""Adds the name of the sink to errors that the code of a sink raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.user_errors import failed_step


@contextmanager
def failing(sink: str) -> Iterator[None]:
    """Turn an exception of a sink's code into `StepError` with the sink's name; errors of headrace pass unchanged."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise failed_step(error, sink, None, None) from error
