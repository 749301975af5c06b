"""Coders of lines: what `ReadFromText` and `WriteToText` make of elements."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as beam
from headrace.coders import BytesCoder, Coder, StrUtf8Coder, ToBytesCoder
from headrace.runners.interactive.interactive_beam import collect


class Backwards(Coder):
    def encode(self, value: object) -> bytes:
        return str(value).encode()[::-1]

    def decode(self, data: bytes) -> object:
        return data[::-1].decode()


def written(folder: Path, *args: object, **kwargs: object) -> bytes:
    with beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create([b"ab", "cd", 12]) | beam.io.WriteToText(f"{folder}/out", *args, **kwargs)
    return (folder / "out-00000-of-00001").read_bytes()


def read(path: Path, coder: Coder, **kwargs: bool) -> list[object]:
    return collect(beam.Pipeline("LocalRunner") | beam.io.ReadFromText(f"{path}", coder=coder, **kwargs))


def test_elements_become_bytes_by_a_coder(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path, coder=ToBytesCoder()) == b"ab\ncd\n12\n"
    assert written(tmp_path, "", True, 0, None, Backwards()) == b"'ba'b\ndc\n21\n"


def test_lines_become_elements_by_a_coder(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"ab\r\n\xff\xe9\n\x85\nend")
    assert read(path, BytesCoder()) == [b"ab", b"\xff\xe9", b"\x85", b"end"]
    assert read(path, BytesCoder(), strip_trailing_newlines=False) == [b"ab\r\n", b"\xff\xe9\n", b"\x85\n", b"end"]
    path.write_bytes(b"ab\ncd\n")
    assert read(path, Backwards()) == ["ba", "dc"]
    assert read(path, StrUtf8Coder()) == ["ab", "cd"]


def test_what_is_no_coder_is_refused() -> None:
    with pytest.raises(TypeError, match="give an instance of a Coder"):
        beam.io.ReadFromText("in", coder=StrUtf8Coder)
    with pytest.raises(TypeError, match="give an instance of a Coder"):
        beam.io.WriteToText("out", coder="utf-8")
    with pytest.raises(TypeError, match="cannot decode"):
        ToBytesCoder().decode(b"")
