"""Every undocumented part of Python's library that headrace uses, one function for each; for Python 3.11 to 3.13.

At a new release of Python, check each function here against its sources.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.connection import Connection
from types import CodeType
from typing import TypeVar

T = TypeVar("T")


def prove_each_other(other: Connection, secret: bytes, asks_first: bool) -> None:
    """Prove to the other end of a connection that this end knows the secret, and have it proved by the other end.

    One end asks first. Raises `multiprocessing.AuthenticationError` if the other end does not know the secret. Relies
    on `deliver_challenge` and `answer_challenge`, with which `multiprocessing.connection.Listener` and `Client` do the
    same over connections that they make themselves.

    >>> from multiprocessing import Pipe
    >>> from threading import Thread
    >>> here, there = Pipe()
    >>> one = Thread(target=prove_each_other, args=(here, b"secret", True))
    >>> one.start()
    >>> prove_each_other(there, b"secret", asks_first=False)
    >>> one.join()
    """
    steps: list[Callable[[Connection, bytes], object]] = [connection.deliver_challenge, connection.answer_challenge]
    for step in steps if asks_first else reversed(steps):
        step(other, secret)


def call_before_threads_end(function: Callable[[], object]) -> None:
    """Call a function when the program is at its end, while threads can still be given work.

    Functions of `atexit` are called later. Relies on `threading._register_atexit`, as `concurrent.futures` does.
    """
    threading._register_atexit(function)  # type: ignore[attr-defined]  # the stubs leave out what is private


def call_with_room(function: Callable[[], T]) -> T:
    """Call a function whose own calls find room on the interpreter's stack of frames.

    CPython keeps frames in chunks of 16 KiB. Where a loop stands at the end of a chunk, each of its calls maps a new
    chunk and gives it back, which took a third of the time of a program that was so deep. A frame that needs more than
    a chunk gets one of the next power of two, whose rest is for the calls below it. Relies on `co_stacksize`, which is
    reserved and not filled.

    >>> call_with_room(lambda: 5)
    5
    """
    return function()


# 300,000 bytes of 524,288.
call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=37_500)


def at_line(code: CodeType, filename: str, line: int, name: str) -> CodeType:
    """The code as if all of it stood in one line of a file, without columns; `name` is what tracebacks call it.

    Relies on the format of the table of positions, `Objects/locations.md` in Python's sources.

    >>> made = at_line(compile("1 / 0", "<string>", "eval"), "prices.py", 12, "column expression")
    >>> made.co_filename, [*made.co_lines()][0][2], {*made.co_positions()}
    ('prices.py', 12, {(12, 12, None, None)})
    """
    units = len(code.co_code) // 2
    entries = [min(8, units - at) for at in range(0, units, 8)]
    # An entry without columns, of so many units, no line further than the one before.
    table = b"".join(bytes([0x80 | 13 << 3 | length - 1, 0]) for length in entries)
    inner = [at_line(each, filename, line, name) if isinstance(each, CodeType) else each for each in code.co_consts]
    return code.replace(
        co_filename=filename, co_firstlineno=line, co_linetable=table, co_name=name, co_consts=tuple(inner)
    )
