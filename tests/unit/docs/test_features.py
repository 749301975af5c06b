"""docs/internals/features.md is kept true: what it names as showing a feature exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def rows() -> dict[str, str]:
    """Each feature's id, and its last column."""
    lines = (ROOT / "docs/internals/features.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [A-Z]\d+ ", line)]
    assert len({row[0] for row in table}) == len(table), "an id stands twice"
    return {row[0]: row[-1] for row in table}


def test_what_shows_a_feature_exists() -> None:
    for feature, shown_by in rows().items():
        named = re.findall(r"`([^`]+)`", shown_by)
        assert named or shown_by == "-", f"{feature}: name a test or an example in backticks, or write -"
        for name in named:
            path, _, test = name.partition("::")
            assert (ROOT / path).exists(), f"{feature}: there is no {path}"
            if test:
                wanted = test.split("::")[-1].split("[")[0]
                assert re.search(rf"\b(def|class) {wanted}\b", (ROOT / path).read_text()), f"{feature}: no {wanted}"


def test_every_feature_has_its_row() -> None:
    expected = {f"{letter}{n}" for letter, last in (("M", 22), ("D", 10), ("B", 9)) for n in range(1, last + 1)}
    assert set(rows()) == expected | {f"X{n}" for n in (1, 2, 3, 4, 5, 6, 8)}
