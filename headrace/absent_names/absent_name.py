"""AbsentName: stands for a name of Beam that Headrace does not have, and raises when a program uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from headrace.absent_names.alternatives import alternative_to
from headrace.lowlevel.errors import HeadraceError

PAGE = "docs/guide/from-beam.md"
"""The page with a table of all names of Beam."""


class AbsentNameError(HeadraceError, AttributeError):
    """A program uses a name of Beam that Headrace does not have. The message says what to use instead."""


@dataclass(frozen=True, slots=True)
class AbsentName:
    """A class, function or constant of Beam that Headrace does not have.

    A program can import the name and define a subclass, so a module that has more than it uses still works. Every other
    use of the name raises `AbsentNameError`: a call, also of a subclass, an attribute, `isinstance`, `|`.

    >>> AbsentName("transforms.sql.SqlTransform")("SELECT 1")
    Traceback (most recent call last):
      ...
    headrace.absent_names.absent_name.AbsentNameError: Apache Beam has transforms.sql.SqlTransform, and Headrace ...
    """

    path: str
    """Module and name, without the name of the package."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise `AbsentNameError`, as every use does."""
        raise AbsentNameError(
            f"Apache Beam has {self.path}, and Headrace has not: {alternative_to(self.path)}. "
            f"{PAGE} lists all names of Beam"
        )

    __getitem__ = __iter__ = __or__ = __ror__ = __rrshift__ = __instancecheck__ = __subclasscheck__ = __call__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            # Python's own protocols ask for such names, and take AttributeError for no.
            raise AttributeError(name)
        self()

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type]:
        def refuse(kind: type, *args: object, **kwargs: object) -> NoReturn:
            self()

        return (type(self.path.rpartition(".")[2], (), {"__new__": refuse, "__module__": __name__}),)
