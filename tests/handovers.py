"""An injector's process that is killed by SIGKILL: `python -m tests.handovers PLACE NAME FIRST RECORDS [OPERATION]`.

It hands over RECORDS numbers from FIRST on, three at a time, each with an id. Started again it goes on from its note,
but one hand-over earlier, as a process that does not know what its last one came to. With OPERATION, the number of a
write to the shared place, it dies before that write; with a `+` behind it, right after it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from headrace.lowlevel import InjectorProcess
from headrace.lowlevel.storage.object_store import ObjectStore
from tests.stores import WrappedStore

T = TypeVar("T")


class Deadly(WrappedStore):
    """Kills this process at one of its writes."""

    def __init__(self, place: str, operation: str) -> None:
        super().__init__(ObjectStore(place))
        self._after = operation.endswith("+")
        self._left = int(operation.rstrip("+"))

    def around(self, name: str, operation: Callable[[], T]) -> T:
        self._left -= name.startswith("put")
        dies = self._left == 0 and name.startswith("put")
        if dies and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = operation()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def main(place: str, name: str, first: int, records: int, operation: str = "") -> None:
    process = InjectorProcess.open(Deadly(place, operation) if operation else place, name)
    start = max(0, int(process.progress or 0) - 3)
    for at in range(start, records, 3):
        numbers = range(first + at, first + min(at + 3, records))
        ids = [b"%d" % number for number in numbers]
        watermark = max(process.watermark, numbers[0])
        process.write([(number, number) for number in numbers], ids, watermark, progress=str(at + len(numbers)))
    process.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
