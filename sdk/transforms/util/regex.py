"""What: matches of a regular expression in lines of text (`apache_beam.transforms.util.Regex`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from headrace.sdk.graph.ptransform import ptransform_fn
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import FlatMap, Map

Lines = PCollection[object]
Pattern = str | re.Pattern[str]
Group = int | str


def _compiled(regex: Pattern, *groups: Group) -> re.Pattern[str]:
    """The compiled expression. Raises `ValueError` for an invalid expression, `IndexError` for an unknown group."""
    try:
        pattern = re.compile(regex)
    except (re.error, TypeError) as error:
        raise ValueError(f"{regex!r:.200} is no regular expression ({error}); correct it") from error
    for group in groups:
        known = group in pattern.groupindex if isinstance(group, str) else 0 <= group <= pattern.groups
        if not known:
            names = ", ".join(map(repr, pattern.groupindex)) or "none with a name"
            raise IndexError(
                f"regular expression {pattern.pattern!r} has no group {group!r}; "
                f"it has groups 0 to {pattern.groups} ({names})"
            )
    return pattern


class Regex:
    """Transforms of lines of text by a regular expression.

    An expression is text or a compiled pattern, and a group is a number or a name. `ValueError` is raised for an
    invalid expression, and `IndexError` for a group that the expression does not have.

    >>> Regex.find("a+").label
    'find(a+)'
    """

    ALL = "__regex_all_groups"
    """Group for `find_all` that stands for pairs (whole match, first group)."""

    @staticmethod
    @ptransform_fn
    def matches(lines: Lines, regex: Pattern, group: Group = 0) -> Lines:
        """Emits the group of the match at the beginning of each line; lines without a match are dropped."""
        return lines | FlatMap(_group_of(_compiled(regex, group).match, group))

    @staticmethod
    @ptransform_fn
    def all_matches(lines: Lines, regex: Pattern) -> Lines:
        """Emits the match at the beginning of each line and its groups, up to the last one that matched, as a list."""
        match = _compiled(regex).match

        def process(line: str) -> Iterable[object]:
            found = match(line)
            return [[found.group(number) for number in range((found.lastindex or 0) + 1)]] if found else []

        return lines | FlatMap(process)

    @staticmethod
    @ptransform_fn
    def matches_kv(lines: Lines, regex: Pattern, keyGroup: Group, valueGroup: Group = 0) -> Lines:
        """Emits a pair of two groups of the match at the beginning of each line."""
        return lines | FlatMap(_group_of(_compiled(regex, keyGroup, valueGroup).match, keyGroup, valueGroup))

    @staticmethod
    @ptransform_fn
    def find(lines: Lines, regex: Pattern, group: Group = 0) -> Lines:
        """Emits the group of the first match in each line; lines without a match are dropped."""
        return lines | FlatMap(_group_of(_compiled(regex, group).search, group))

    @staticmethod
    @ptransform_fn
    def find_all(lines: Lines, regex: Pattern, group: Group = 0, outputEmpty: bool = True) -> Lines:
        """Emits the list of the groups of all matches in each line; `Regex.ALL` gives pairs (whole match, first group).

        Args:
            lines: The collection.
            regex: The expression.
            group: Number or name of the group, or `Regex.ALL`.
            outputEmpty: Whether the list includes matches whose group is empty.
        """
        both = group == Regex.ALL
        finditer = _compiled(regex, 1 if both else group).finditer

        def process(line: str) -> Iterable[object]:
            matches = [(match.group(), match.group(1 if both else group)) for match in finditer(line)]
            kept = [(whole, part) for whole, part in matches if outputEmpty or part]
            return [kept if both else [part for _, part in kept]]

        return lines | FlatMap(process)

    @staticmethod
    @ptransform_fn
    def find_kv(lines: Lines, regex: Pattern, keyGroup: Group, valueGroup: Group = 0) -> Lines:
        """Emits a pair of two groups for every match in each line."""
        finditer = _compiled(regex, keyGroup, valueGroup).finditer

        def process(line: str) -> Iterable[object]:
            return [match.group(keyGroup, valueGroup) for match in finditer(line)]

        return lines | FlatMap(process)

    @staticmethod
    @ptransform_fn
    def replace_all(lines: Lines, regex: Pattern, replacement: str) -> Lines:
        """Replaces all matches in each line."""
        pattern = _compiled(regex)
        return lines | "Replace" >> Map(lambda line: pattern.sub(replacement, line))

    @staticmethod
    @ptransform_fn
    def replace_first(lines: Lines, regex: Pattern, replacement: str) -> Lines:
        """Replaces the first match in each line."""
        pattern = _compiled(regex)
        return lines | "Replace" >> Map(lambda line: pattern.sub(replacement, line, count=1))

    @staticmethod
    @ptransform_fn
    def split(lines: Lines, regex: Pattern, outputEmpty: bool = False) -> Lines:
        """Splits each line at the matches into a list of texts; empty texts are kept only if `outputEmpty` is true."""
        pattern = _compiled(regex)
        return lines | "Split" >> Map(lambda line: [part for part in pattern.split(line) if part or outputEmpty])


def _group_of(find: Callable[[str], re.Match[str] | None], *groups: Group) -> Callable[[str], Iterable[object]]:
    """A function from a line to a list with the group of its match, or the tuple of groups; empty without a match."""

    def process(line: str) -> Iterable[object]:
        found = find(line)
        return [found.group(*groups)] if found else []

    return process
