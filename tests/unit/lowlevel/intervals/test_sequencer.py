from __future__ import annotations

import pytest

from headrace.lowlevel.intervals.sequencer import Mismatch, attempt_token, mismatched


def test_tokens() -> None:
    assert attempt_token(b"\xff" * 8) == "ff" * 8
    with pytest.raises(ValueError, match="7 random bytes could be given twice; give 8 or more"):
        attempt_token(bytes(7))


def test_attempts_that_fit_together() -> None:
    made = {(0, 0): "a", (0, 1): "b", (1, 0): "c"}
    assert mismatched({(0, 0): {"a"}, (0, 1): {"b"}}, made) == ()


def test_attempts_that_do_not() -> None:
    made = {(0, 0): "a", (0, 1): "b"}
    consumed = {(0, 0): {"x"}, (0, 1): {"b", "x"}, (0, 2): {"z"}, (0, 3): set()}
    assert mismatched(consumed, made) == (
        Mismatch(0, 0, "a", ("x",)),
        Mismatch(0, 1, "b", ("b", "x")),
        Mismatch(0, 2, None, ("z",)),
    )
    assert str(mismatched(consumed, made)[2]) == (
        "level 0, task 2: no attempt is to be committed, but productions of z were used"
    )
