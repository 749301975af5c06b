"""What can go wrong, each with its rule, remedy and what was committed."""

from __future__ import annotations

import pickle


class HeadraceError(Exception):
    """Base of all errors of this package."""


class TopologyError(HeadraceError, ValueError):
    """A topology or pipeline that cannot run; raised while it is built, nothing has run."""


_REMEDY = (
    "use None, bool, int, float, str, bytes, a date, an enumeration, a named tuple, a frozen dataclass, or a tuple of "
    "them, or give its type a coder: headrace.coders.registry.register_coder(type, coder)"
)


class KeyEncodingError(HeadraceError, TypeError):
    """A key without a deterministic encoding."""

    def __init__(self, key: object, remedy: str | None = None) -> None:
        self.key = key
        super().__init__(
            f"key {key!r:.200} of type {type(key).__name__} cannot be encoded deterministically; {remedy or _REMEDY}"
        )


class CoderError(HeadraceError, TypeError):
    """A registered coder that cannot be used where it is needed."""

    def __init__(self, kind: str, coder: str, problem: str) -> None:
        self.kind, self.coder, self.problem = kind, coder, problem
        super().__init__(kind, coder, problem)

    def __str__(self) -> str:
        return f"the coder {self.coder} that is registered for type {self.kind} {self.problem}"


class StepError(HeadraceError, RuntimeError):
    """User code raised. The epoch was given up: nothing of it is committed.

    What `Pipeline.run` raises is of the class that user code raised as well, where that can be, and has what was raised
    as its `__cause__`.
    """

    def __init__(self, step: str, key: object, value: object, cause: str, raised: bytes | None = None) -> None:
        self.step, self.key, self.value, self.cause, self.raised = step, key, value, cause, raised
        # Not by a constructor, which may be that of another base.
        self.args = (step, key, value, cause)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.step, sendable(self.key), sendable(self.value), self.cause, self.raised)

    def __str__(self) -> str:
        where = f"step {self.step!r} raised"
        if self.key is not None:
            where += f" for key {self.key!r:.200}"
        if self.value is not None:
            where += f" at {self.value!r:.200}"
        return f"{where}; nothing of this epoch is committed\n{self.cause}"


class Shown(str):
    """Stands for a value that cannot be pickled, in an error that tells of it: what it looks like."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def sendable(value: object) -> object:
    """The value, or how it looks if it cannot be pickled."""
    try:
        pickle.dumps(value)
    except Exception:
        return Shown(repr(value))
    return value


class StalledError(HeadraceError, RuntimeError):
    """A hold keeps the watermark back and no timer is left that could release it. Earlier epochs are committed."""


class FencedError(HeadraceError, RuntimeError):
    """Another driver took the checkpoint over. Nothing that this driver tried after that is committed."""


class CheckpointError(HeadraceError, RuntimeError):
    """A checkpoint that cannot be read, is damaged, or belongs to something else. Nothing was changed."""


EMPTY = "it is empty"
"""What is wrong with an object that has no bytes."""


class DamagedError(CheckpointError):
    """An object of a checkpoint that is empty, or whose bytes do not fit its checksum."""

    def __init__(self, name: str, damage: str, remedy: str = "") -> None:
        self.name, self.damage = name, damage
        self.remedy = remedy or "put an intact copy of the file there, or start over on an empty checkpoint"
        super().__init__(name, damage, self.remedy)

    def __str__(self) -> str:
        return f"{self.name} is damaged ({self.damage}); {self.remedy}"


class CollectedError(CheckpointError):
    """What a reader of a checkpoint was looking at has been deleted, as the run has gone on; reading again helps."""


class TopologyChangeError(CheckpointError):
    """A changed pipeline that cannot go on with what is stored. Nothing was changed, and what runs goes on."""
