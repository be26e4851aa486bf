"""The documents point at what is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PAGES = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_leads_to_a_file(page: Path):
    assert not [target for target in links(page) if not (page.parent / target).exists()]


def test_the_index_names_every_page():
    index = CHECKOUT / "docs" / "README.md"
    named = {(index.parent / target).resolve() for target in links(index)}
    assert {page.resolve() for page in (CHECKOUT / "docs").rglob("*.md") if page != index} <= named


def test_code_names_only_pages_that_exist():
    sources = [
        path for room in ("contrastive", "flows", "reports", "tasks") for path in (CHECKOUT / room).rglob("*.py")
    ]
    assert not [
        (path.name, page)
        for path in sources
        for page in re.findall(r"docs/[a-z/]+\.md", path.read_text(encoding="utf-8"))
        if not (CHECKOUT / page).exists()
    ]
