"""Adds the name of the sink to errors that the code of a sink raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.lowlevel.errors import HeadraceError, StoredClassError
from headrace.lowlevel.user_errors import failed_step


@contextmanager
def failing(sink: str, outcome: str | None = None) -> Iterator[None]:
    """Turn an exception of a sink's code into `StepError` with the sink's name; errors of headrace pass unchanged.

    The error says what is committed: nothing of the epoch, unless `outcome` says otherwise.
    """
    try:
        yield
    except StoredClassError as error:
        raise error.of_step(sink) from error.__cause__
    except HeadraceError:
        raise
    except Exception as error:
        failed = failed_step(error, sink, None, None)
        failed.outcome = outcome or failed.outcome
        raise failed from error


@contextmanager
def naming_stored_classes(sink: str) -> Iterator[None]:
    """Add the sink's name to the error for a class of its stored rows that is gone; other errors pass unchanged."""
    try:
        yield
    except StoredClassError as error:
        raise error.of_step(sink) from error.__cause__
