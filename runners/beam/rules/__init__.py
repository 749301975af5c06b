"""How each of Beam's transforms is run: one module of rules for each group of transforms."""

from __future__ import annotations

from headrace.runners.beam.rules import collections, par_do, reads, streams, writes
from headrace.runners.beam.translation import Rule

RULES: dict[type, Rule] = {
    **collections.RULES,
    **par_do.RULES,
    **reads.RULES,
    **streams.RULES,
    **writes.RULES,
}
"""Class of Beam's transform -> what adds its steps. A composite without a rule is entered."""
