"""The documentation is run: the blocks of a page in order, as one program, and what it prints compared with the page.

`docs/connectors.md` and `docs/streaming102.md` have tests of their own, and so has README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.pages import DOCS, NOT_RUN, ROOT, blocks, pages, run_page

ELSEWHERE = {"connectors": "test_connectors.py", "streaming102": "test_streaming102.py"}
PAGES = [page for page in pages() if page.stem not in ELSEWHERE]
# Half a minute or more of a stream that is killed, and goes on.
SLOW = {"start", "kafka-to-lakehouse"}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in SLOW else []) for page in PAGES],
)
def test_a_page_is_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
    monkeypatch.chdir(tmp_path)
    # What a page writes and imports is not there for other tests.
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        run_page(page.read_text(encoding="utf-8"), str(page))
    finally:
        for name in [name for name, module in sys.modules.items() if _is_in(tmp_path, module)]:
            del sys.modules[name]


def _is_in(folder: Path, module: ModuleType) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(str(folder))


EXCEPTIONS = {
    "commands.md": ["it goes on until Ctrl-C"],
    "howto/alerts.md": ["it writes to an object store"],
    "howto/kafka-to-lakehouse.md": ["it takes packages from a registry"],
    "howto/kafka.md": ["it writes to an object store"],
    "pictures.md": ["start.md runs these commands", "the checkpoint is an example"],
    "internals/faults.md": ["these are tests, and take hours"],
    "ui.md": ["it goes on until Ctrl-C"],
    "connectors.md": ["Delta's jar is not here"],
    "start.md": ["it takes packages from a registry, for minutes"],
    "guide/from-beam.md": ["the place and the program are examples"],
    "guide/cluster.md": ["it makes a file in the checkout"],
    "guide/platforms/amazon.md": ["it needs an account"],
    "guide/platforms/databricks.md": ["it needs a workspace"] * 2,
    "guide/platforms/google.md": ["it needs an account"],
    "guide/platforms/hosts.md": ["it needs docker", "it needs root", *["it needs a cluster"] * 2],
    "guide/platforms/kubernetes.md": ["it needs docker", *["it needs a cluster"] * 3],
    "guide/platforms/microsoft.md": ["it needs an account"],
    "security.md": ["it needs an account"] * 3,
    "spark-releases.md": ["it needs a server of Spark Connect", "it starts a server that stays"],
    "guide/from-bytewax.md": ["it needs Bytewax"],
    "guide/from-flink.md": ["it needs Apache Flink"],
    "guide/from-kafka-streams.md": ["it is Java"],
    "README.md": ["it sets up the checkout that this test runs in"],
}
"""All blocks that no test runs."""


def test_what_is_not_run_is_listed_here_and_says_why() -> None:
    found: dict[str, list[str]] = {}
    for page in [*pages(), ROOT / "README.md"]:
        for block in blocks(page.read_text(encoding="utf-8")):
            name = str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT))
            assert block.language in ("python", "sh", "text", "yaml", "java"), f"{name}: nobody runs {block.language!r}"
            if block.language == "yaml":
                yaml.safe_load(block.code)
            assert block.language != "java" or block.remark.startswith(NOT_RUN)
            if block.remark.startswith(NOT_RUN):
                found.setdefault(name, []).append(block.remark.removeprefix(f"{NOT_RUN}: "))
    assert found == EXCEPTIONS


def test_a_page_that_is_wrong_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="prints"):
        run_page("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page")
    with pytest.raises(AssertionError, match="prints"):
        run_page("```sh\necho 1\n```\n\n```text\n2\n```\n", "page")
    with pytest.raises(AssertionError, match="end with 1"):
        run_page("```sh\nfalse\necho 1\n```\n", "page")
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "page")
    with pytest.raises(AssertionError, match="a fence has more"):
        run_page("```python not run\n1 / 0\n```\n", "page")
    assert run_page("```python\nprint(1)\n```\n\n```text\n1\n```\n", "page") == 1
    assert run_page("<!-- on Spark -->\n```python\n1 / 0\n```\n\n```text\n1\n```\n", "page") == 0


def test_a_page_saves_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = "<!-- saved as one.py -->\n```python\nprint(1 / 1)\n```\n"
    assert run_page(f"`one.py`:\n\n{program}\n```sh\npython one.py\n```\n\n```text\n1.0\n```\n", "page") == 1
    with pytest.raises(AssertionError, match=r"does not say that the block behind line 2 is one\.py"):
        run_page(program, "page")


def test_a_page_goes_where_its_commands_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("```sh\nmkdir there\ncd there\n```\n\n```sh\npwd\n```\n\n" + f"```text\n{tmp_path}/there\n```\n", "page")
