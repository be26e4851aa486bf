"""The page in a real browser, made from hostile texts: it works, runs nothing of them, and asks no network."""

import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Page

from reports import build as html
from reports.build import base, report_of, run_address
from reports.tables import Entry, Table
from tests import browser as browsers
from tests.reports.figures import sample

CLASSES = ("</script>", "<img src=http://127.0.0.1:9/x onerror=alert(3)>", "{{ 7 * 7 }}")
LABELS = ("ce", "<b onclick=alert(4)>rdrop</b>", 'ce+"supcon"\x9b\u202e')


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.opened() as opened:
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    folder = tmp_path_factory.mktemp("page")
    results = sample.results(sample.recipes(labels=LABELS), sample.pivot(), classes=CLASSES)
    report = report_of(results, ["section-0", "section-1"], folder)
    first, second = report.sections
    sections = [replace(first, tables=[ties(), *first.tables], notes=["A guard."]), replace(second, notes=["Another."])]
    report = replace(report, sections=sections)
    path = folder / "index.html"
    path.write_text(html.page_of(report, results, folder), encoding="utf-8", errors="replace")
    yield SimpleNamespace(results=results, report=report, path=path)


def ties() -> Table:
    """A table with equal numbers, numbers that letters would sort otherwise, and holes."""
    numbers = zip("abcdefg", (9.0, None, 10.0, 9.0, -0.5, None, 9.0), strict=True)
    rows = [[Entry(name), Entry((f"{value or '–'}"), value, bold=value == 10)] for name, value in numbers]
    return Table("Ties", [("Name"), ("Number")], rows)


@pytest.fixture
def shown(browser: Browser, made: SimpleNamespace) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1000, "height": 900}, locale="en")
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda asked: None if asked.url.startswith(("file://", "data:")) else wrong.append(asked.url))
    page.goto(made.path.as_uri())
    yield page
    page.close()
    assert wrong == []


def names(page: Page) -> str:
    return "".join(page.locator("#section-0 table").first.locator("tbody th").all_inner_texts())


def states(page: Page) -> list[str | None]:
    return [
        head.get_attribute("aria-sort") for head in page.locator("#section-0 table").first.locator("thead th").all()
    ]


def test_a_head_sorts_by_number_and_equal_ones_keep_their_order(shown: Page):
    name, number = shown.locator("#section-0 table").first.locator("thead button").all()
    assert (names(shown), states(shown)) == ("abcdefg", ["none", "none"])
    number.click()
    assert (names(shown), states(shown)) == ("cadgebf", ["none", "descending"])
    number.focus()
    shown.keyboard.press("Enter")
    assert (names(shown), states(shown)) == ("eadgcbf", ["none", "ascending"])
    name.click()
    assert (names(shown), states(shown)) == ("abcdefg", ["ascending", "none"])


def test_guards_stand_above_their_tables_and_details_are_folded(shown: Page):
    order = shown.evaluate(
        """() => [...document.querySelectorAll("main > section[id^=section]")].map((section) =>
        [...section.querySelectorAll("h2, .guard, .wide, details")].map((it) => it.tagName[0]).join(""))"""
    )
    assert [re.sub("D(?=D)", "", each)[:3] for each in order] == ["HPD"] * 2
    assert shown.locator("section details table").first.is_hidden()


def test_it_fits_a_narrow_screen_in_both_lights(browser: Browser, made: SimpleNamespace):
    page = browser.new_page(viewport={"width": 420, "height": 800})
    page.goto(made.path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 420
    for scheme, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(13, 17, 23)")):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
        assert page.evaluate("document.documentElement.scrollWidth") == 420
    page.close()


def test_each_number_leads_to_its_runs_one_run_to_its_own_page_and_unknown_ones_to_none(
    shown: Page, made: SimpleNamespace
):
    link = shown.locator("#section-0 table").nth(1).locator("tbody tr").nth(1).locator("td a").first
    address = unquote(link.get_attribute("href") or "")
    runs = '["runc2s0","runc2s1","runc2s2"]'
    assert address == f'http://127.0.0.1:5000/#/compare-runs?runs={runs}&experiments=["7"]'

    results = made.results
    assert run_address(["c1s0"], results) == "http://127.0.0.1:5000/#/experiments/7/runs/runc1s0"
    assert run_address(["c1s0", "never trained"], results) == run_address(["c1s0"], results)
    assert run_address(["never trained"], results) is None and run_address([], results) is None


def test_links_go_to_the_server_that_was_asked_without_its_password():
    assert base("https://somebody:secret@tracking.example:8443/x/") == "https://tracking.example:8443/x"
    assert base("http://[::1]:5000") == "http://[::1]:5000"
    assert base("sqlite:////home/x/mlflow.db") == base("javascript:alert(1)") == "http://127.0.0.1:5000"


def test_the_same_results_give_the_same_bytes_and_hold_everything(made: SimpleNamespace):
    again = html.page_of(made.report, made.results, made.path.parent)
    assert again.encode() == made.path.read_bytes()
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#|http://127\.0\.0\.1:5000/#/)[^"']*""", again)
    assert len(re.findall("<script", again)) == 1
    # nothing turns text around or stays unseen
    assert "\\u202e" in again and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", again)
