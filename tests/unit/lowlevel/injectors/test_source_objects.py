"""What an injector keeps besides its position: written once, missed by name, deleted when no commit needs it."""

from __future__ import annotations

import pytest

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.storage.object_store import ObjectStore


def test_equal_contents_are_one_object():
    store = ObjectStore("memory://")
    objects = SourceObjects(store, "sources/a")
    assert objects.put(b"a") == objects.put(b"a") != objects.put(b"b")
    assert len(store.list("sources/a")) == 2


def test_one_that_is_lost_or_damaged():
    store = ObjectStore("memory://")
    objects = SourceObjects(store, "sources/a")
    name = objects.put(b"a")
    store.put(f"sources/a/{name}", b"damaged")
    with pytest.raises(CheckpointError, match=f"sources/a/{name}"):
        objects.get(name)
    store.delete(f"sources/a/{name}")
    with pytest.raises(CheckpointError, match=f"sources/a/{name} in .* is missing, .* put it back"):
        objects.get(name)


def test_objects_of_the_last_two_commits_stay():
    store = ObjectStore("memory://")
    SourceObjects(store, "sources/b").put(b"of another")
    left = SourceObjects(store, "sources/a").put(b"left by a crash")
    objects = SourceObjects(store, "sources/a")
    names = [objects.put(bytes([number])) for number in range(5)]
    objects.committed(names[:1])
    assert len(store.list("sources/a")) == 6
    objects.committed(names[1:2])
    assert [f"sources/a/{name}" for name in sorted(names[:2])] == store.list("sources/a")
    new = objects.put(b"next")
    objects.committed([names[1], new])
    assert f"sources/a/{names[0]}" not in store.list("sources/a")
    objects.committed([new])
    objects.committed([new])
    assert store.list("sources/a") == [f"sources/a/{new}"]
    assert f"sources/a/{left}" not in store.list("sources")
    assert len(store.list("sources/b")) == 1
