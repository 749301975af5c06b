"""What programs import stays as it is, but for changes that are meant."""

from __future__ import annotations

import difflib

from tests.publicapi import GOLDEN, listing


def test_public_names_and_their_signatures_are_those_of_the_list() -> None:
    listed = GOLDEN.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(listed, listing().splitlines(), "listed", "now", lineterm="", n=1))
    assert not changes, "if it is meant: python -m tests.publicapi, and a line in CHANGELOG.md\n" + "\n".join(changes)
