"""Beam's own tests of `fileio`, and some of `textio`, with the package's name changed."""

import pytest

from tests.beam.renamed import classes, local  # noqa: F401 - a fixture
from tests.other_versions import lacking

if reason := lacking("beam/test_renamed_files.py"):
    pytest.skip(reason, allow_module_level=True)

# Left out: what looks into private classes of Beam, and two tests of the words of a message.
_LEFT_OUT = """
MatchTest.test_match_files_one_directory_failure1
ReadTest.test_fail_on_directories
MatchContinuouslyTest.test_poll_fn_gates_on_start_timestamp
MatchContinuouslyTest.test_poll_fn_disallows_empty_match
MatchContinuouslyTest.test_poll_fn_stamps_outputs_with_poll_time
MatchContinuouslyTest.test_match_updated_files_keys_on_path_and_mtime
MatchContinuouslyTest.test_match_updated_files_rejects_missing_mtime
MatchContinuouslyTest.test_watch_window_termination_ignores_pre_start_polls
MatchContinuouslyTest.test_poll_fn_records_its_clock_reading_for_the_termination
MatchContinuouslyTest.test_poll_fn_advances_watermark_on_empty_match
MatchContinuouslyTest.test_poll_fn_stamps_outputs_with_mtime_for_the_cursor
MatchContinuouslyTest.test_poll_fn_holds_the_mtime_watermark_at_the_newest_match
MatchContinuouslyTest.test_poll_fn_releases_the_mtime_watermark_once_nothing_is_newer
MatchContinuouslyTest.test_poll_fn_holds_the_mtime_watermark_again_for_a_newer_match
MatchContinuouslyTest.test_poll_fn_caps_the_mtime_watermark_at_the_poll_time
MatchContinuouslyTest.test_poll_fn_advances_the_mtime_watermark_on_empty_match
MatchContinuouslyTest.test_timestamp_cursor_rejects_missing_mtime
"""

MatchTest, ReadTest, MatchContinuouslyTest, WriteFilesTest = classes(
    "io.fileio_test", "MatchTest", "ReadTest", "MatchContinuouslyTest", "WriteFilesTest", without=_LEFT_OUT
)

_READS = """
TextSourceTest.test_custom_delimiter_read_from_text
TextSinkTest.test_write_pipeline_auto_compression_unsharded
TextSinkTest.test_write_pipeline_header
TextSinkTest.test_write_pipeline_footer
"""

TextSourceTest, TextSinkTest = classes("io.textio_test", "TextSourceTest", "TextSinkTest", only=_READS)
