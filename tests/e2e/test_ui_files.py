"""Files of the web pages: nothing from elsewhere, nothing that runs data, all in the package."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "src" / "penstock" / "rest" / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
MAX_LINES = 350

# What turns text into markup or code, and what a strict content policy would block.
FORBIDDEN = {
    ".js": r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function"
    r"|setTimeout\(\s*[\"'`]|createContextualFragment|srcdoc|javascript:",
    ".html": r"<script(?![^>]*\bsrc=)|\bstyle=|<style|\son\w+=",
    ".css": r"@import|expression\(",
    ".svg": r"<script|\son\w+=",
}
ELSEWHERE = re.compile(r"""https?://[\w-]+(?:\.[\w-]+)+|["'(]//[\w-]+""")


def name_of(path: Path) -> str:
    return path.relative_to(STATIC).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_LINES, "split it by noun"
    found = re.search(FORBIDDEN[path.suffix], text)
    assert found is None, found
    links = [found for found in ELSEWHERE.findall(text) if "www.w3.org" not in found]
    assert links == [], "the pages load nothing from elsewhere"


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".js"], ids=name_of)
def test_imports_exist_and_are_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for names, source in re.findall(r"import (.+?) from \"(.+?)\";", text, re.DOTALL):
        target = (path.parent / source).resolve()
        assert target.is_file(), source
        exported = target.read_text(encoding="utf-8")
        for name in re.findall(r"[\w$]+", names.replace("* as", "")):
            assert len(re.findall(rf"\b{re.escape(name)}\b", text)) > 1, f"{name} is not used"
            if "*" not in names:
                assert re.search(rf"export (?:async )?(?:function|const|class) {name}\b", exported)


def test_modules_are_fetched_side_by_side() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:modulepreload" href|script type="module" src)="(.+?)"', page)
    assert sorted(named) == [name_of(path) for path in FILES if path.suffix == ".js"]


def test_everything_is_in_the_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    missing = {f"penstock/rest/static/{name_of(path)}" for path in FILES} - packed
    assert not missing
