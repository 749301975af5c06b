"""Checks that refuse unsupported arguments of Beam's transforms by name."""

from __future__ import annotations


def refuse_unless(transform: str, argument: str, given: object, default: object, instead: str) -> None:
    """Raise `TypeError` if an unsupported argument differs from Beam's default.

    >>> refuse_unless("ReadFromText", "delimiter", None, None, "lines end in LF or CR LF")
    >>> refuse_unless("ReadFromText", "delimiter", b"|", None, "lines end in LF or CR LF")
    Traceback (most recent call last):
      ...
    TypeError: ReadFromText has no delimiter, got b'|' for it; lines end in LF or CR LF
    """
    if given is not default and (type(given) is not type(default) or given != default):
        raise TypeError(f"{transform} has no {argument}, got {given!r:.200} for it; {instead}")
