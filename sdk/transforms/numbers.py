"""What counts as a number where one is given."""

from __future__ import annotations


def is_whole(given: object) -> bool:
    """Whether it is a whole number; True and False are none.

    >>> is_whole(3), is_whole("3"), is_whole(True)
    (True, False, False)
    """
    return isinstance(given, int) and not isinstance(given, bool)
