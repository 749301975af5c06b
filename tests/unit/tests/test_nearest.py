"""Which tests `./dev test-for` chooses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import ROOT
from tests.nearest.__main__ import chosen, main
from tests.nearest.callmap import CallMap
from tests.nearest.names import NameGraph

FILES = {
    "headrace/__init__.py": "",
    "sdk/count.py": "class Count: pass",
    "sdk/__init__.py": "from headrace.sdk.count import Count",
    "sdk/user.py": "from headrace.sdk import Count",
    "tests/helper.py": "import headrace.sdk.user\n\ndef use():\n    headrace.sdk.user.use()",
    "tests/test_package.py": "import headrace.sdk",
    "tests/test_helper.py": "def test():\n    from tests.helper import use",
    "tests/test_by_attribute.py": "import headrace.sdk as beam\n\nbeam.Count()",
    "tests/test_other.py": "from headrace.sdk.elsewhere import Count",
}


def test_a_name_is_followed_to_its_definition_and_not_to_packages_that_pass_it_on() -> None:
    graph = NameGraph(FILES)
    assert graph.tests_of(["sdk/count.py"]) == {"tests/test_by_attribute.py": 1, "tests/test_helper.py": 3}
    assert "tests/test_package.py" in graph.tests_of(["sdk/__init__.py"])


def test_what_a_run_saw_comes_before_names_and_replaces_them_for_tests_that_ran() -> None:
    calls = CallMap({"tests/test_other.py": [("sdk/count.py", "f")], "tests/test_by_attribute.py": [("sdk/b.py", "g")]})
    assert list(chosen(["sdk/count.py"], calls, NameGraph(FILES))) == ["tests/test_other.py", "tests/test_helper.py"]


def test_the_nearest_tests_of_this_product() -> None:
    graph = NameGraph.of_the_checkout()
    for path, test in {
        "sdk/triggers/data_driven.py": "tests/unit/sdk/triggers/test_triggers.py",
        "sdk/operators/grouping/grouping.py": "tests/unit/sdk/operators/grouping/test_grouping.py",
        "lowlevel/state/segment.py": "tests/unit/lowlevel/state/test_segment.py",
    }.items():
        assert test in list(graph.tests_of([path]))[:3], path


def test_a_new_clone_answers_without_installed_packages(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-S",
        "-m",
        "tests.nearest",
        "--list",
        "--most",
        "1",
        "headrace/sdk/triggers/data_driven.py",
    ]
    environment = os.environ | {"HEADRACE_TEST_MAP": str(tmp_path)}
    printed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.startswith("tests/unit/sdk/triggers/")
    assert " more, further away" in printed


@pytest.mark.parametrize("path", ["/", "sdk/nothing.py", "tests/unit", "docs"])
def test_a_path_that_holds_no_module_of_the_product_is_refused(path: str) -> None:
    with pytest.raises(SystemExit, match=f"dev: {path} is "):
        main([path, "--list"])


def test_the_plugin_sees_calls_and_not_what_an_import_runs(tmp_path: Path) -> None:
    test = "tests/unit/lowlevel/intervals/test_interval_map.py"
    environment = os.environ | {"HEADRACE_TEST_MAP": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.nearest.calls",
        "-p",
        "no:cacheprovider",
        "--noconftest",
        test,
    ]
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    calls = CallMap.read(tmp_path)
    assert list(calls.tests_of(["lowlevel/intervals/interval_map.py"])) == [test]
    # The import of stored classes calls its decorators.
    assert not calls.tests_of(["lowlevel/stored_names.py"])
