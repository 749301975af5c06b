"""What a run does to the garbage collector of its process."""

from __future__ import annotations

import gc

import pytest

from headrace.lowlevel.gc_pause import new_objects_only


@pytest.mark.parametrize("frozen", [False, True], ids=["nothing frozen", "frozen by the program"])
def test_what_the_program_has_frozen_stays_frozen(frozen: bool) -> None:
    before = gc.get_freeze_count()
    try:
        gc.unfreeze()
        if frozen:
            gc.freeze()
        with new_objects_only():
            assert gc.get_freeze_count() > 0
        assert (gc.get_freeze_count() > 0) is frozen
    finally:
        if before:
            gc.freeze()
