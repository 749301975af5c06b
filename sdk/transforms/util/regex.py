"""What: what a regular expression finds in lines of text (`apache_beam.transforms.util.Regex`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from headrace.sdk.ptransform import ptransform_fn
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.element import FlatMap, Map

Lines = PCollection[object]
Pattern = str | re.Pattern[str]
Group = int | str


def _compiled(regex: Pattern, *groups: Group) -> re.Pattern[str]:
    """The expression; refuses a group that it does not have."""
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
    """Transforms of text by regular expressions, each given as text or compiled; groups by number or name.

    >>> Regex.find("a+").label
    'find(a+)'
    """

    ALL = "__regex_all_groups"
    """For `find_all`: pairs of the whole match and the first group."""

    @staticmethod
    @ptransform_fn
    def matches(lines: Lines, regex: Pattern, group: Group = 0) -> Lines:
        """The group of the match at the beginning of each line, where there is one."""
        return lines | FlatMap(_group_of(_compiled(regex, group).match, group))

    @staticmethod
    @ptransform_fn
    def all_matches(lines: Lines, regex: Pattern) -> Lines:
        """The match at the beginning of each line and its groups, up to the one that was closed last, as a list."""
        match = _compiled(regex).match

        def process(line: str) -> Iterable[object]:
            found = match(line)
            return [[found.group(number) for number in range((found.lastindex or 0) + 1)]] if found else []

        return lines | FlatMap(process)

    @staticmethod
    @ptransform_fn
    def matches_kv(lines: Lines, regex: Pattern, keyGroup: Group, valueGroup: Group = 0) -> Lines:
        """Pairs of two groups of the match at the beginning of each line."""
        match = _compiled(regex, keyGroup, valueGroup).match

        def process(line: str) -> Iterable[object]:
            found = match(line)
            return [(found.group(keyGroup), found.group(valueGroup))] if found else []

        return lines | FlatMap(process)

    @staticmethod
    @ptransform_fn
    def find(lines: Lines, regex: Pattern, group: Group = 0) -> Lines:
        """The group of the first match in each line, where there is one."""
        return lines | FlatMap(_group_of(_compiled(regex, group).search, group))

    @staticmethod
    @ptransform_fn
    def find_all(lines: Lines, regex: Pattern, group: Group = 0, outputEmpty: bool = True) -> Lines:
        """The group of all matches in each line as a list; with `Regex.ALL` pairs of whole match and first group.

        Args:
            lines: The collection.
            regex: The expression.
            group: Which group, or `Regex.ALL`.
            outputEmpty: Whether matches whose group is empty are in the list.
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
        """Pairs of two groups of every match in each line."""
        finditer = _compiled(regex, keyGroup, valueGroup).finditer

        def process(line: str) -> Iterable[object]:
            return [(match.group(keyGroup), match.group(valueGroup)) for match in finditer(line)]

        return lines | FlatMap(process)

    @staticmethod
    @ptransform_fn
    def replace_all(lines: Lines, regex: Pattern, replacement: str) -> Lines:
        """Each line with all matches replaced."""
        pattern = _compiled(regex)
        return lines | "Replace" >> Map(lambda line: pattern.sub(replacement, line))

    @staticmethod
    @ptransform_fn
    def replace_first(lines: Lines, regex: Pattern, replacement: str) -> Lines:
        """Each line with the first match replaced."""
        pattern = _compiled(regex)
        return lines | "Replace" >> Map(lambda line: pattern.sub(replacement, line, count=1))

    @staticmethod
    @ptransform_fn
    def split(lines: Lines, regex: Pattern, outputEmpty: bool = False) -> Lines:
        """What is between the matches in each line, as a list; empty text only if `outputEmpty`."""
        pattern = _compiled(regex)
        return lines | "Split" >> Map(lambda line: [part for part in pattern.split(line) if part or outputEmpty])


def _group_of(find: Callable[[str], re.Match[str] | None], group: Group) -> Callable[[str], Iterable[object]]:
    """From a line to the group of its match, if there is one."""

    def process(line: str) -> Iterable[object]:
        found = find(line)
        return [found.group(group)] if found else []

    return process
