"""Programs run together: where a pipeline costs seconds before anything happens, that is what makes a corpus quick."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tests.parity.corpus import Program
from tests.parity.worlds import Results, World


class Batches:
    """The results of programs in a world; those that are asked for first are run first, with their batch.

    Args:
        world: Runs them.
        programs: All that may be asked for.
        size: How many share a pipeline.
    """

    def __init__(self, world: World, programs: Iterable[Program], size: int) -> None:
        self._world = world
        self._batch_of = {program.name: batch for batch in batches(programs, size) for program in batch}
        self._results: dict[str, Results] = {}

    def __getitem__(self, name: str) -> Results:
        batch = self._batch_of[name]
        if name not in self._results:
            try:
                self._results.update(self._world.run(batch))
            except Exception:
                # Which one it is that fails shows when each runs by itself.
                self._batch_of.update({program.name: [program] for program in batch})
                if len(batch) == 1:
                    raise
                return self[name]
        return self._results[name]


def batches(programs: Iterable[Program], size: int) -> Iterator[list[Program]]:
    """Programs that can share a pipeline, in batches of at most so many."""

    def kind(program: Program) -> tuple[bool, bool]:
        return program.streaming, program.alone

    for (_, alone), group in groupby(sorted(programs, key=kind), key=kind):
        alike = list(group)
        limit = 1 if alone else size
        yield from (alike[at : at + limit] for at in range(0, len(alike), limit))
