"""`docs/reference/configuration.md` says of every setting what the registry says, and no more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from penstock.core.options import OPTIONS, WITHOUT_EFFECT, WITHOUT_EFFECT_PREFIXES, Option

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
HINT: Final = "docs/reference/configuration.md and src/penstock/core/options.py differ"


def rows(columns: int) -> dict[str, tuple[str, ...]]:
    """Returns the rows of tables of so many columns, by the key in the first one."""
    found: dict[str, tuple[str, ...]] = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == columns and cells[0].startswith("`"):
            key = cells[0].strip("`")
            assert key not in found, f"{key} is listed twice"
            found[key] = tuple(cells[1:])
    return found


def old_names(option: Option) -> str:
    return f" *Old: {', '.join(f'`{old}`' for old in option.deprecated)}.*" * bool(
        option.deprecated
    )


def test_every_setting_with_an_effect_has_a_row_that_is_right() -> None:
    effective = {key: each for key, each in OPTIONS.items() if not each.note}
    found = rows(4)
    assert found.keys() == effective.keys(), HINT
    for key, option in effective.items():
        kind, default, meaning = found[key]
        choices = r" \| ".join(f"`{choice}`" for choice in option.choices)
        assert kind == (choices or option.kind), f"{key}: {HINT}"
        assert default == ("" if option.default is None else f"`{option.default}`"), key
        said, old = meaning.removesuffix(old_names(option)), old_names(option)
        assert meaning.endswith(old), f"{key}: {HINT}"
        assert said.endswith(".") and "*Old" not in said, f"{key}: {HINT}"


def test_every_setting_without_an_effect_has_its_reason() -> None:
    silent = {key: each for key, each in OPTIONS.items() if each.note}
    found = rows(2)
    assert found.keys() == silent.keys(), HINT
    for key, option in silent.items():
        assert found[key] == (f"{option.note}.{old_names(option)}",), f"{key}: {HINT}"
    assert not WITHOUT_EFFECT.keys() & OPTIONS.keys()
    for key in [*WITHOUT_EFFECT, *WITHOUT_EFFECT_PREFIXES]:
        assert f"`{key}`" in PAGE


def test_every_setting_with_an_effect_is_used() -> None:
    """What is only listed is ignored in silence: somewhere it is read, or it has a reason."""
    skipped = {"options.py"}
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "src/penstock").rglob("*.py"))
        if path.name not in skipped
    )
    unused = [
        key
        for key, option in OPTIONS.items()
        if not option.note and not re.search(rf'[".}}]{re.escape(key.rpartition(".")[2])}"', code)
    ]
    assert unused == []
