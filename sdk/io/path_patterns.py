"""Patterns of paths: what they match, and which folders of this machine are walked for one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from pathlib import PurePath
from posixpath import join
from typing import TypeAlias

MAGIC = re.compile(r"[*?\[]")
"""A character by which a path is a pattern."""
_HIDDEN = ("_", ".")
_TOKEN = re.compile(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])")
_WILD = ("**/", "**", "*", "?")
_FOLDERS = ("**/",)
_NOTHING = ("**/", "**", "*")
"""Tokens that may stand for nothing."""
_Place: TypeAlias = tuple[int, bool]
"""Index of the token of a pattern that comes next; whether it is `**/` within the name of a folder."""


Places: TypeAlias = frozenset[_Place]
"""All places in a pattern at which the path of a folder may end."""


def with_slashes(path: str) -> str:
    """A path of this system as pyarrow and patterns write it, with slashes on Windows, too."""
    return path if os.sep == "/" else path.replace(os.sep, "/")


def expression(pattern: str) -> str:
    """A regular expression for the paths that a pattern matches.

    >>> bool(re.fullmatch(expression("/a/*.csv"), "/a/b.csv")), bool(re.fullmatch(expression("/a/*"), "/a/_b"))
    (True, False)
    """
    tokens = _TOKEN.split(pattern)
    visible = r"(?!(?<=/)[_.])"
    meaning = {"**/": rf"(?:{visible}[^/]+/)*", "*": rf"{visible}[^/]*", "?": rf"{visible}[^/]"}
    # At the end of a pattern, or within a name, Beam's matches all that is below.
    meaning["**"] = rf"(?:{visible}[^/]*/)*{visible}[^/]*"
    return "".join(meaning.get(token) or (token if _is_set(token) else re.escape(token)) for token in tokens)


def _is_set(token: str) -> bool:
    return token.startswith("[") and token.endswith("]") and len(token) > 2


class FolderPattern:
    """What of a pattern is left to match below each folder: `expression` as a machine that stops at each slash.

    Args:
        below: The part of the pattern behind the folder that it names.

    >>> pattern = FolderPattern("**/b*/*.txt")
    >>> inner = pattern.within(pattern.start(), "b1")
    >>> pattern.matches(inner, "x.txt"), pattern.matches(inner, "x.csv"), pattern.matches(pattern.start(), "x.txt")
    (True, False, False)
    """

    def __init__(self, below: str) -> None:
        parts = _TOKEN.split(below)
        self._tokens = [token for part in parts for token in ([part] if part in _WILD or _is_set(part) else part)]

    def start(self) -> Places:
        """The places in the pattern at the folder that it names."""
        return frozenset(self._closed({(0, False)}))

    def within(self, places: Places, name: str) -> Places:
        """The places in a folder within one with some places; none if nothing in it, or below it, can match."""
        return frozenset(self._closed(self._behind(places, f"{name}/")))

    def matches(self, places: Places, name: str) -> bool:
        """Whether a file of a folder with some places matches."""
        return (len(self._tokens), False) in self._closed(self._behind(places, name), skipped=_NOTHING)

    def _behind(self, places: Iterable[_Place], text: str) -> set[_Place]:
        found = {*places}
        for number, char in enumerate(text):
            # No wildcard matches the beginning of a hidden name, not even as no character.
            is_hidden = not number and char in _HIDDEN
            found = {
                after
                for place in self._closed(found, skipped=_FOLDERS if is_hidden else _NOTHING)
                if (after := self._after(place, char, is_hidden)) is not None
            }
        return found

    def _after(self, place: _Place, char: str, is_hidden: bool) -> _Place | None:
        """The place behind a character; None if it does not match."""
        index, is_within = place
        token = self._tokens[index] if index < len(self._tokens) else ""
        if token == "**/":
            if char == "/":
                return (index, False) if is_within else None
            return None if is_hidden else (index, True)
        if token == "**":
            return None if is_hidden else place
        if token in ("*", "?"):
            return None if is_hidden or char == "/" else (index + (token == "?"), False)
        fits = re.fullmatch(token, char) is not None if _is_set(token) else token == char
        return (index + 1, False) if fits else None

    def _closed(self, places: set[_Place], skipped: Collection[str] = _FOLDERS) -> set[_Place]:
        """The places, and those behind tokens that may stand for nothing."""
        found = {*places}
        for index, is_within in places:
            while not is_within and index < len(self._tokens) and self._tokens[index] in skipped:
                index += 1
                found.add((index, False))
        return found


def walked(
    folder: str, pattern: FolderPattern, listed: Callable[[str], Iterable[tuple[str, bool]]]
) -> Iterator[tuple[str, Places | None]]:
    """The folders in which files can match, each with the places of the pattern that no path before has reached there.

    The places are None if no path before has reached the folder, so that the whole pattern tells which files match.
    Each folder of the disk has one path for each place, whatever links lead to it: one without links if that matches,
    else that by the oldest link, so that a new link to it never gives its files other paths.

    Args:
        folder: The folder that the pattern names.
        pattern: What is below it.
        listed: Lists a folder: the names of the folders in it, and whether each is a link.
    """
    known: dict[str, Places] = {}
    folders, links = [(folder, os.path.realpath(folder), pattern.start())], list[tuple[int, str, Places]]()
    while folders or links:
        if folders:
            path, real, places = folders.pop()
        else:
            _, path, places = heappop(links)
            real = os.path.realpath(path)
        before = known.get(real, frozenset())
        if not (new := places - before):
            continue
        known[real] = before | new
        try:
            inner = [(join(path, name), name, is_link) for name, is_link in listed(path)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        for each, name, is_link in inner:
            if not (following := pattern.within(new, name)):
                continue
            if not is_link:
                folders.append((each, os.path.join(real, name), following))
            elif not PurePath(real).is_relative_to(os.path.realpath(each)):
                # It does not lead to a folder that contains the link.
                with suppress(FileNotFoundError):
                    heappush(links, (os.lstat(each).st_mtime_ns, each, following))
        yield path, new if before else None
