"""Exports, under the module name of Beam, assertions about collections."""

from headrace.sdk.testing.assertions import (
    BeamAssertException,
    TestWindowedValue,
    assert_that,
    equal_to,
    equal_to_approx,
    equal_to_per_window,
    is_empty,
    is_not_empty,
    matches_all,
)
from headrace.sdk.testing.combiners import check_vectorized
from headrace.sdk.testing.files import open_shards

__all__ = [
    "BeamAssertException",
    "TestWindowedValue",
    "assert_that",
    "check_vectorized",
    "equal_to",
    "equal_to_approx",
    "equal_to_per_window",
    "is_empty",
    "is_not_empty",
    "matches_all",
    "open_shards",
]
