"""What programs import stays as it is, but for changes that are meant."""

from __future__ import annotations

import difflib
import re
from importlib import import_module

from headrace.absent_names.absent_modules import AbsentModule
from tests.pages import DOCS, ROOT
from tests.publicapi import GOLDEN, listing, public_modules


def test_public_names_and_their_signatures_are_those_of_the_list() -> None:
    listed = GOLDEN.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(listed, listing().splitlines(), "listed", "now", lineterm="", n=1))
    assert not changes, "if it is meant: python -m tests.publicapi, and a line in CHANGELOG.md\n" + "\n".join(changes)


def test_pages_for_users_import_from_public_modules() -> None:
    public = {*public_modules(), "headrace.runners.interactive"}
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        if "internals" not in page.parts:
            said = page.read_text(encoding="utf-8")
            for module in re.findall(r"^\s*(?:from|import) (headrace[\w.]*)", said, re.M):
                assert module in public or isinstance(import_module(module), AbsentModule), f"{page}: {module}"
