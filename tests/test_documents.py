"""The documents point at what is there."""

import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
PAGES = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


def test_every_link_leads_to_a_file():
    assert not [(page, to) for page in PAGES for to in links(page) if not (page.parent / to).exists()]


def test_the_index_names_every_page():
    index = CHECKOUT / "docs" / "README.md"
    named = {(index.parent / target).resolve() for target in links(index)}
    assert {page.resolve() for page in (CHECKOUT / "docs").rglob("*.md") if page != index} <= named


def test_code_names_only_pages_that_exist():
    rooms = ("contrastive", "flows", "reports", "tasks")
    assert not [
        (path.name, page)
        for room in rooms
        for path in (CHECKOUT / room).rglob("*.py")
        for page in re.findall(r"docs/[a-z/]+\.md", path.read_text(encoding="utf-8"))
        if not (CHECKOUT / page).exists()
    ]
