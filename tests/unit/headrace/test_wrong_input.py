"""Wrong input gets an answer that helps: whole texts, compared to `tests/golden/wrong_input.md`."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from tests.pinned import is_pinned
from tests.wronginput import GOLDEN, left_out, raises, results, unseen, written

PYARROW = int(version("pyarrow").partition(".")[0])


@pytest.mark.skipif(PYARROW < 18, reason="older releases of pyarrow word what they refuse in another way")
def test_every_error_says_what_it_is_known_to_say_and_none_is_unknown() -> None:
    before, cases = results()
    said, known = written(before, cases), GOLDEN.read_text(encoding="utf-8")
    if not is_pinned("typer"):
        # Other releases word what is wrong with a command's arguments in another way.
        said, known = (re.sub(r"exit code 2 \| Usage: .*", "", text) for text in (said, known))
    assert said.splitlines() == known.splitlines(), "after a deliberate change: python -m tests.wronginput"
    missing = "\n".join(unseen(cases))
    assert not missing, f"add a case to {GOLDEN}, or a reason to wrong_input_left_out.md beside it, for\n{missing}"


def test_no_reason_is_given_for_what_is_not_there() -> None:
    there = {name for path, function, _ in raises() for name in (path, f"{path}::{function}")}
    for name in left_out():
        assert name in there or any(path.startswith(name) for path in there if name.endswith("/")), name
