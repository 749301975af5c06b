"""Compressed files of several streams, read to the end of the last stream or to an error."""

from __future__ import annotations

import bz2
import io
import lzma
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class _Decompressor(Protocol):
    """A decompressor of one stream, as in Python's `bz2` and `lzma`."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /, max_length: int = -1) -> bytes: ...


class StreamsReader(io.RawIOBase):
    """Decompressed bytes of all streams of a file, which `cat`, pbzip2 and pixz write one behind the other.

    Python's `bz2.open` and `lzma.open` take anything behind the first stream that is no stream for the end of the file.
    Here it is an error, as the records of a damaged stream would be lost otherwise.

    Args:
        file: The compressed file.
        decompressor: Makes the decompressor of a stream.
        padding: Number of zero bytes of which any multiple may stand behind a stream; 0 for none.

    >>> file = io.BytesIO(bz2.compress(b"tea") + bz2.compress(b"jam"))
    >>> StreamsReader(file, bz2.BZ2Decompressor).read()
    b'teajam'
    """

    def __init__(self, file: BinaryIO, decompressor: Callable[[], _Decompressor], padding: int = 0) -> None:
        self._file, self._new, self._padding = file, decompressor, padding
        self._stream = decompressor()
        self._rest = b""
        """Compressed bytes that are read and not decompressed."""

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """See `io.RawIOBase`. Raises `EOFError` for a stream that is cut off, and what the decompressor raises."""
        view = memoryview(buffer).cast("B")
        data = b""
        while not data and view.nbytes:
            if self._stream.eof and not self._next_stream():
                break
            if self._stream.needs_input:
                self._rest = self._rest or self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not self._rest:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            compressed, self._rest = self._rest, b""
            data = self._stream.decompress(compressed, max_length=view.nbytes)
        view[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bool:
        """Begin the stream behind the current one and its padding; false at the end of the file."""
        self._rest, padded = self._stream.unused_data, 0
        while self._padding:
            stripped = self._rest.lstrip(b"\0")
            padded += len(self._rest) - len(stripped)
            self._rest = stripped or self._file.read(io.DEFAULT_BUFFER_SIZE)
            if stripped or not self._rest:
                break
        if self._padding and padded % self._padding:
            raise lzma.LZMAError(f"{padded} zero bytes are behind a stream, which is no multiple of {self._padding}")
        self._rest = self._rest or self._file.read(io.DEFAULT_BUFFER_SIZE)
        if self._rest:
            self._stream = self._new()
        return bool(self._rest)


def bzip2_reader(file: BinaryIO) -> io.BufferedReader:
    """The decompressed bytes of a bzip2 file."""
    return io.BufferedReader(StreamsReader(file, bz2.BZ2Decompressor))


def xz_reader(file: BinaryIO) -> io.BufferedReader:
    """The decompressed bytes of an xz file, whose streams may have padding behind them, or of an old .lzma file."""
    return io.BufferedReader(StreamsReader(file, lzma.LZMADecompressor, padding=4))
