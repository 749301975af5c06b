"""The documentation as a site: it builds without a warning, needs no network, and has every public name."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.publicapi import documented_names, public_names

ROOT = Path(__file__).parents[3]


def test_every_public_name_is_on_a_page_once() -> None:
    paths = Counter(path for path, _ in documented_names())
    assert not [path for path, count in paths.items() if count > 1]
    shown = [what for _, what in documented_names()]
    missing = [path for path, what in public_names() if not any(what is each for each in shown)]
    assert not missing


def test_every_public_name_has_a_docstring() -> None:
    silent = []
    for path, what in public_names():
        if inspect.isclass(what):
            text = vars(what).get("__doc__")
            # What Python writes for a dataclass without one.
            text = None if text and re.match(rf"{what.__name__}\(.*\)$", text) else text
        else:
            text = inspect.getdoc(what) if inspect.isfunction(what) else _said_below(path)
        if not text:
            silent.append(path)
    assert not silent


def _said_below(path: str) -> str | None:
    """The text below an assignment to a name, in its own module or in the one that it is taken from."""
    module, _, name = path.rpartition(".")
    for source in (inspect.getsource(importlib.import_module(module)), *_sources_of(name)):
        if said := re.search(rf'^{name}\b[^\n]*=(?:(?!^\S).)*\n"""(.*?)"""', source, re.M | re.S):
            return said[1]
    return None


def _sources_of(name: str) -> Iterator[str]:
    for path in (ROOT / "sdk").rglob("*.py"), (ROOT / "lowlevel").rglob("*.py"):
        for each in path:
            text = each.read_text(encoding="utf-8")
            if re.search(rf"^{name}\b[^\n]*=", text, re.M):
                yield text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `./dev site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


# Some ten seconds of processor time, most of it for the API pages; `./dev site` refuses what the build refuses.
@pytest.mark.soak
class TestSite:
    def test_it_has_every_page(self, site: Path) -> None:
        pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
        assert {page for page in pages if (site / page).is_file()} == pages

    def test_nothing_is_fetched_from_elsewhere(self, site: Path) -> None:
        elsewhere = re.compile(r"""(?:https?:)?//[^"'\s)]+""")
        asked = re.compile(r"<(?:script|link|img|iframe|source|video|audio|object|embed)\b[^>]*>")
        for page in site.rglob("*.html"):
            for tag in asked.findall(page.read_text(encoding="utf-8")):
                if 'rel="canonical"' not in tag:
                    assert not elsewhere.search(tag), f"{page.relative_to(site)}: {tag}"
        for style in site.rglob("*.css"):
            asked_by = re.findall(r"@import[^;]*|url\([^)]*\)", style.read_text(encoding="utf-8"))
            assert not [each for each in asked_by if elsewhere.search(each) and "data:" not in each], style

    def test_the_programs_of_the_theme_ask_nobody_either(self, site: Path) -> None:
        """They would for drawings in Mermaid, and for the stars of a repository that is named."""
        for page in site.rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            assert 'class="mermaid"' not in text, page
            assert 'data-md-component="source"' not in text, page

    def test_names_in_docstrings_are_links_and_overrides_are_left_out(self, site: Path) -> None:
        shown = (site / "api" / "io.html").read_text(encoding="utf-8")
        assert 'href="#headrace.sdk.io.files.file_source.FileSource"><code>FileSource</code></a>' in shown
        for page in (site / "api").glob("*.html"):
            assert not re.search(r"<p>See <code>[\w.]+</code>\.</p>", page.read_text(encoding="utf-8")), page

    def test_options_have_their_types_and_defaults(self, site: Path) -> None:
        texts = [(site / "api" / page).read_text(encoding="utf-8") for page in ("runners.html", "pipelines.html")]
        runners, pipelines = (re.sub(r"<[^>]+>", "", text) for text in texts)
        assert "cache_bytes: int = 67108864" in runners and "option_field" not in runners
        assert "record: bool | str | Sequence[str] | None" in pipelines and "Option(" not in pipelines

    def test_sessions_in_docstrings_are_code(self, site: Path) -> None:
        for page in (site / "api").glob("*.html"):
            assert "<blockquote" not in page.read_text(encoding="utf-8"), page
        # The prompt, as a highlighted session has it.
        assert '<span class="gp">&gt;&gt;&gt; </span>' in (site / "api" / "windows.html").read_text(encoding="utf-8")


def test_every_example_is_on_its_page() -> None:
    shown = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    programs = {
        found[1]
        for path in (ROOT / "examples").rglob("*.py")
        if (found := re.search(r"python -m examples\.([\w.]+)", path.read_text(encoding="utf-8")))
    }
    for name in programs - {"NAME", "game.NAME"}:
        assert f"`python -m examples.{name}" in shown or f"`{name.removeprefix('streaming102.')}`" in shown, name
