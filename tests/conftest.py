"""What holds for every test: randomized tests take their time, and print what repeats a failure."""

from __future__ import annotations

from hypothesis import settings

# Fresh examples on every run, also on CI; a failure prints its @reproduce_failure line.
settings.register_profile("headrace", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("headrace")
