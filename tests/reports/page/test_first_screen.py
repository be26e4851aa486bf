"""What a reader of the committed quickstart sees without scrolling, and what a screen reader makes of its pages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser import opened

REPORT = Path(__file__).parents[3] / "reports" / "output" / "quickstart"
VISIBLE = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    const legend = walker.currentNode.parentElement.closest(".small");
    if (box.height && box.top < innerHeight && box.bottom > 0 && !legend) found.push(walker.currentNode.data);
  }
  return found.join(" ");
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as started:
        yield started


def opened_page(browser: Browser, width: int, height: int, scheme: str = "light") -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True)
    page.goto((REPORT / "index.html").as_uri())
    return page


def count_words(text: str) -> int:
    """Count words, without numbers."""
    return sum(any(map(str.isalpha, word)) for word in re.findall(r"[^\W_]+(?:[.'-][^\W_]+)*", text))


def test_a_laptop_shows_finding_and_next_step_in_few_words(browser: Browser):
    page = opened_page(browser, 1000, 700)
    seen = page.evaluate(VISIBLE)
    assert count_words(seen) <= 130, seen
    command = page.locator("#first code").bounding_box()
    assert command is not None and command["y"] + command["height"] <= 700
    page.close()


def test_a_phone_shows_the_answers_the_next_step_and_the_first_rows(browser: Browser):
    page = opened_page(browser, 390, 844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    shown = [row.bounding_box() for row in page.locator(".forest li").all()]
    assert sum(box is not None and box["y"] + box["height"] <= 844 for box in shown) >= 1
    told = [part.bounding_box() for part in (page.locator(".answers"), page.locator("#first code"))]
    assert all(box is not None and box["y"] + box["height"] <= 700 for box in told)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe(browser: Browser, scheme: str):
    page = opened_page(browser, 1000, 700, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    violations = Axe().run(page).response["violations"]
    serious = [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in violations
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    page.close()
