"""The programs to compare: short Beam programs, each a function of the package that it is to run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.parity.masks import Mask


@dataclass(frozen=True, slots=True)
class Program:
    """A program with what has to be known to run and to judge it."""

    name: str
    build: Callable[..., object]
    """Called with the package and the pipeline; returns a collection, or a dict of them."""
    streaming: bool = False
    masks: tuple[Mask, ...] = ()
    flags: tuple[str, ...] = ()
    """Pipeline options."""
    alone: bool = False
    """Whether it changes what programs beside it in the same pipeline see."""


PROGRAMS: dict[str, Program] = {}


def program(
    build: Callable[..., object] | None = None,
    *,
    streaming: bool = False,
    masks: tuple[Mask, ...] = (),
    flags: tuple[str, ...] = (),
    alone: bool = False,
):
    """Add a program to the corpus: a decorator, with or without arguments."""

    def register(build: Callable[..., object]) -> Callable[..., object]:
        name = build.__name__
        assert name not in PROGRAMS, f"two programs are named {name}"
        PROGRAMS[name] = Program(name, build, streaming, masks, flags, alone)
        return build

    return register if build is None else register(build)


def timed(beam, p, values, label="Timed"):
    """A bounded collection of (value, event time in seconds) pairs."""
    stamp = beam.MapTuple(lambda value, time: beam.window.TimestampedValue(value, time))
    return p | f"{label}/Create" >> beam.Create(values) | f"{label}/Stamp" >> stamp
