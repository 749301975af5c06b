"""Folders that are linked to each other: each is walked once, and nothing that matches is left out."""

from __future__ import annotations

import os
import random
import re
from functools import partial
from pathlib import Path

import pytest

from headrace.sdk.io.files.filesystem import DirectoryListing, match
from headrace.sdk.io.path_patterns import expression
from tests.depth import seeds

PATTERNS = [
    "**/*.txt",
    "**",
    "*/*.txt",
    "*/*/*.txt",
    "**/a*/*.txt",
    "**/to_*/x.txt",
    "**/*/*/*.txt",
    "a*/**/x.txt",
    "**/b/**/x.txt",
    "to**/x.txt",
    "a/**/to_b/**/[xy].txt",
]


def folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).write_text(name)
    return path


def found(pattern: str) -> list[str]:
    paths = sorted(file.path for file in match(pattern))
    assert sorted(file.path for file in DirectoryListing(pattern).look()) == paths
    return paths


def test_folders_that_are_all_linked_to_each_other(tmp_path):
    """Six such folders had 1,956 paths, seven 13,699."""
    names = [f"f{number}" for number in range(9)]
    for name in names:
        folder(tmp_path / name, "x.txt")
    for name in names:
        for other in set(names) - {name}:
            (tmp_path / name / f"to_{other}").symlink_to(f"../{other}")
    assert found(f"{tmp_path}/**/*.txt") == [f"{tmp_path}/{name}/x.txt" for name in names]
    assert len(found(f"{tmp_path}/**/to_*/x.txt")) == len(names)
    assert len(found(f"{tmp_path}/*/*/x.txt")) == len(names)
    assert found(f"{tmp_path}/f0/to_f3/*.txt") == [f"{tmp_path}/f0/to_f3/x.txt"]


def test_a_folder_elsewhere_has_the_path_of_the_oldest_link(tmp_path):
    """A new link must not give other paths to files that are read, as these would be read again."""
    elsewhere, inside = folder(tmp_path / "elsewhere", "x.txt"), folder(tmp_path / "in")
    for number, name in enumerate("zma"):
        (inside / name).symlink_to(elsewhere)
        os.utime(inside / name, (number, number), follow_symlinks=False)
        assert found(f"{inside}/**/*.txt") == [f"{inside}/z/x.txt"]


def test_a_folder_is_looked_for_again_when_its_link_is_gone(tmp_path):
    elsewhere, inside = folder(tmp_path / "elsewhere", "x.txt"), folder(tmp_path / "in")
    for number, name in enumerate("ab"):
        (inside / name).symlink_to(elsewhere)
        os.utime(inside / name, (number, number), follow_symlinks=False)
    now = [10**18]
    listing = DirectoryListing(f"{inside}/**/*.txt", lambda: now[0])
    looks = []
    for _ in range(3):
        looks.append([file.path for file in listing.look()])
        (inside / "a").unlink(missing_ok=True)
        now[0] += 10**12
    assert looks == [[f"{inside}/a/x.txt"], [f"{inside}/b/x.txt"], []]


@pytest.mark.parametrize("pattern", ["", "/*", "/**/*.txt"])
@pytest.mark.parametrize("continuous", [False, True])
def test_a_link_to_no_file_is_named(tmp_path, caplog, pattern, continuous):
    """Such as one to a disk that is not there at the moment."""
    folder(tmp_path / "in", "x.txt")
    (tmp_path / "in" / "y.txt").symlink_to("nothing")
    look = DirectoryListing(f"{tmp_path}/in{pattern}").look if continuous else partial(match, f"{tmp_path}/in{pattern}")
    assert [file.path for file in look()] == [f"{tmp_path}/in/x.txt"]
    look()
    assert caplog.text.count(f"{tmp_path}/in/y.txt is a link to a file that is not there") == 1


def every_path(path: Path, reals: tuple[str, ...] = ()) -> list[str]:
    """The paths of all files, by all ways that do not come to a folder, or one above it, a second time."""
    real = os.path.realpath(path)
    if any(each == real or each.startswith(f"{real}/") for each in reals):
        return []
    paths = []
    for each in path.iterdir():
        paths += every_path(each, (*reals, real)) if each.is_dir() else [str(each)]
    return paths


@pytest.mark.parametrize("seed", seeds(10, 400))
def test_each_file_that_matches_by_some_path_is_found_once(tmp_path, seed):
    chance = random.Random(seed)
    folders = [tmp_path / "in"]
    for _ in range(chance.randint(1, 5)):
        name = chance.choice(["a", "b", "a1", "_hidden"])
        folders.append(folder(chance.choice(folders) / name, *chance.sample(["x.txt", "y.txt", "z.csv"], 2)))
    folders.append(folder(tmp_path / "elsewhere" / "b", "x.txt"))
    for _ in range(chance.randint(1, 5)):
        target = chance.choice(folders[1:])
        link = chance.choice(folders[:-1]) / f"to_{target.name}{chance.randint(0, 2)}"
        if not link.exists():
            link.symlink_to(target)
    there = every_path(tmp_path / "in")
    for pattern in PATTERNS:
        matches = re.compile(expression(f"{tmp_path}/in/{pattern}")).fullmatch
        expected = {os.path.realpath(path) for path in there if matches(path)}
        paths = found(f"{tmp_path}/in/{pattern}")
        reals = [*map(os.path.realpath, paths)]
        assert len(reals) == len({*reals}), pattern
        # A pattern with names of links may go in a circle.
        assert expected <= {*reals}, pattern
        assert all(map(matches, paths))
