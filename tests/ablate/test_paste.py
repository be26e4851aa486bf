"""docs/guide/paste.html in a browser: the numbers of the command, tables as people paste them, and their mistakes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ablate
from tests import browser
from tests.ablate.test_directions import CASES

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "paste.html"
RUNS = {"base": (0.808, 0.812, 0.816, 0.808, 0.816), "new": (0.825, 0.831, 0.837, 0.825, 0.837)}
ROWS = "name,mean,std,n\nbase,0.812,0.004,5\nnew,0.831,0.006,5\n"


@pytest.fixture(scope="module")
def page():
    with browser.opened() as opened:
        tab = opened.new_page(viewport={"width": 390, "height": 800})
        problems = list[str]()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda request: request.url.startswith("file:") or problems.append(request.url))
        tab.goto(PAGE.as_uri())
        yield tab
        assert problems == []


def results(page, text: str, **settings: str) -> dict[str, list[str]]:
    """Paste a table; return the cells of each row of the result."""
    for name in ("margin", "runs"):
        page.fill(f"#{name}", settings.get(name, ""))
    page.fill("#table", text)
    cells = page.eval_on_selector_all(
        "#result tr:not(tfoot tr)", "rows => rows.map(row => [...row.children].map(c => c.textContent))"
    )
    return {row[0]: row[1:] for row in cells}


COMPARISONS = """margin => {
    const rows = read(byId("table").value, null).samples, others = rows.slice(1);
    const made = others.map(row => compare(row, rows[0], others.length, margin, true));
    return [made.map(each => [each.difference, each.half, each.verdict, each.needs ?? null]), detectable(made)];
}"""


@pytest.mark.parametrize("seed", range(4))
def test_the_numbers_are_those_of_the_command(page, seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    frame = pd.DataFrame(
        {
            "name": [f"row {number}" for number in range(size)],
            "mean": (1 + rng.normal(size=size) / 10).round(4),
            "std": rng.uniform(0.01, 0.1, size).round(4),
            "n": rng.integers(2, 12, size),
        }
    )
    margin = [None, 0.02, 0.3, 0.05][seed]
    given = frame.rename(columns={"mean": "perplexity"})
    verdicts = ablate.judge(given, row="name", score="perplexity", baseline="row 0", margin=margin)
    expected = verdicts.frame().set_index("label").drop("row 0")
    results(page, frame.to_csv(index=False))
    found = page.evaluate(COMPARISONS, margin)
    for (difference, half, verdict, needs), line in zip(found[0], expected.itertuples(), strict=True):
        assert (difference, half) == pytest.approx((line.difference, line.difference_half_width), rel=1e-9)
        assert verdict == line.verdict
        assert needs == (None if pd.isna(line.needs_seeds) else line.needs_seeds)
    assert found[1] == pytest.approx(expected.detectable.iloc[0], rel=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        ROWS,
        ROWS.replace(",", "\t"),
        ROWS.replace(",", ";").replace(".", ","),
        "| name | mean | std | n |\n|---|--:|--:|--:|\n| base | 0.812 | 0.004 | 5 |\n| **new** | 0.831 | 0.006 | 5 |\n",
        "name,n,std,mean\nbase,5,0.004,0.812\nnew,5,0.006,0.831\n",
        "base  0.812 ± 0.004\nnew   0.831 +- 0.006",
        "base,0.808,0.812,0.816,0.808,0.816\nnew,0.825,0.831,0.837,0.825,0.837",
        "name,accuracy_mean,accuracy_std,n_seeds\nbase,0.812,0.004,5\nnew,0.831,0.006,5",
        "Table 1: 3 rows\n\n| name | acc |\n|---|---|\n| base | 0.812 ± 0.004 |\n| new | **0.831** ± 0.006 |",
        "name & acc \\\\ \\hline\nbase & $0.812 \\pm 0.004$ \\\\\nnew & \\textbf{0.831} $\\pm$ 0.006 \\\\",
        "name & acc \\\\\nbase & 0.812$_{\\pm 0.004}$ \\\\\nnew & 0.831{\\scriptsize$\\pm$0.006} \\\\",
        "name mean std n\nbase 0.812 0.004 5\nnew 0.831 0.006 5",
        "name,seed,acc\n" + "".join(f"{n},{s},{v}\n" for n, v5 in RUNS.items() for s, v in enumerate(v5)),
        "name,acc\n" + "".join(f"{n},{v}\n" for n, v5 in RUNS.items() for v in v5),
        "name,seed 1,seed 2,seed 3,seed 4,seed 5,mean,std\n"
        + "".join(f"{n},{','.join(map(str, v5))},.8,.1\n" for n, v5 in RUNS.items()),
        "model,latency (ms),acc\nbase,110,0.812 ± 0.004\nnew,330,0.831 ± 0.006",
        "name,acc\nbase,0.812 (0.004)\nnew,0.831 (0.006)",
        'name,mean,std,n\n"base","0,812","0,004",5\n"new","0,831","0,006",5',
        "name,0,1,2,3,4\nbase,0.808,0.812,0.816,0.808,0.816\nnew,0.825,0.831,0.837,0.825,0.837",
        "name,s0,s1,s2,s3,s4,s5\nbase,0.808,0.812,,0.816,0.808,0.816\nnew,0.825,0.831,0.837,0.825,0.837,",
    ],
)
def test_a_table_is_read_as_it_is_pasted(page, text):
    shown = results(page, text, runs="5")
    assert shown["new"][3:] == ["0.831", "5"] and shown["new"][1].startswith("+0.019"), page.inner_text("#wrong")
    assert shown["new"][0].startswith("better") and page.inner_text("#finding") == "better: new."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROWS.replace("0.831", "O.831"), "line 3: “O.831” is not a number"),
        (ROWS + "new,1,1,5", "line 4: the row “new” is there twice"),
        ("base 1", "Two rows are needed."),
        ("base | 0.8 ± 0.1\nnew | 0.9 ± 0.1", "line 1: say how many runs “base” has"),
        (ROWS.replace("std", "sem"), "names “sem”: give the standard deviation"),
        ('name,mean,n,std\na,"1,234",5,2\nb,"1,134",5,1', "“1,234” may be a thousand or a decimal comma"),
        ("name,params,acc,std,n\na,2,1,1,3\nb,3,1,1,3", "has several columns of numbers (params, acc)"),
        ("name,acc,f1\na,1±1,1±1\nb,2±1,2±1", "line 2: “a” has several scores"),
        ("gpt 4 0.8 0.81 0.79\nllama 2 0.83 0.84 0.85", "Is the first number of each line part of its name?"),
        ("name,mean,n\nbase,0.81,5\nnew,0.83,5", "has no standard deviation: add a column std"),
        ("name,accuracy,f1\nbase,0.81,0.5\nnew,0.83,0.6", "names several scores (accuracy, f1)"),
        ("name,f1,f1_std,acc,acc_std\nbase,1,1,1,1\nnew,2,1,1,1", "has several standard deviations"),
        (ROWS.replace("0.006", "-0.006"), "line 3: the standard deviation of “new” is negative"),
    ],
)
def test_a_mistake_is_named_with_its_line(page, text, message):
    assert results(page, text) == {} and message in page.inner_text("#wrong")


SCORES = "accuracy Accuracy acc_mean f1_mean F1-score acc_(%) exact_match AUC spearman ece val_loss ppl FID EER points"


@pytest.mark.parametrize("score", [name.replace("_(", " (") for name in SCORES.split()])
@pytest.mark.parametrize("scale", [1, 100])
def test_direction_and_margin_are_guessed_as_by_the_command(page, score, scale):
    frame = pd.DataFrame(
        [(name, scale * mean, scale * 0.002, 20) for name, mean in (("base", 0.812), ("new", 0.814), ("far", 0.85))],
        columns=["name", score, "std", "n"],
    )
    verdicts = ablate.judge(frame, baseline="base").frame().set_index("label").verdict
    page.evaluate("chosen = false")
    shown = results(page, frame.to_csv(index=False))
    assert {name: shown[name][0] for name in ("new", "far")} == {name: verdicts[name] for name in ("new", "far")}


def test_directions_are_those_of_the_command_and_assumed_ones_are_said(page):
    names = [score for score, _ in CASES]
    assert page.evaluate("names => names.map(higherIsBetter)", names) == [higher for _, higher in CASES]
    for score, said in (("zeta", "zeta: higher is assumed to be better; “lower is better” reverses this."), ("acc", ""),
                        ("mean", "The score: higher is assumed to be better; “lower is better” reverses this."),
                        ("bits_per_byte", "")):  # fmt: skip
        page.evaluate("chosen = false")
        results(page, ROWS.replace("mean", score))
        assert page.inner_text("#assumed") == said and page.is_checked("#lower") == (score == "bits_per_byte")
    results(page, ROWS.replace("mean", "zeta"))
    page.check("#lower")
    assert page.inner_text("#assumed") == ""


def test_what_is_above_the_values_is_no_row_and_the_minus_of_the_page_is_one(page):
    for head in ("model,0,1,2", "model,1,7,42"):
        shown = results(page, f"{head}\nbase,81,82,80\nnew,84,83,85")
        assert list(shown)[1:] == ["base", "new"] and shown["base"][3] == "81"
    shown = results(page, "base,−1.2,−1.3\nnew,-1.0,-0.9\nc,-1.0,-0.8")
    assert shown["base"][3] == "-1.25"
    page.evaluate("chosen = false")
    assert results(page, "model,data,loss,std,n\nbase,sst,.8,.01,5\nnew,sst,.6,.01,5")["new"][0] == "better"


def test_a_gain_that_may_be_within_the_margin_is_called_so(page):
    page.evaluate("chosen = false")  # the direction that an earlier test asked for
    shown = results(page, ROWS, margin="0.018")
    assert shown["new"][0] == "better, possibly negligible"
    assert page.inner_text("#finding") == "better: new (possibly negligible)."


def test_one_run_could_never_have_shown_a_difference(page):
    shown = results(page, "base,0.81,0.82,0.80\nnew,0.99")
    assert shown["new"][0] == "one run has no interval: no difference could be shown"
    assert page.inner_text("#finding") == "No difference holds; 1 of 1 not decided."


def test_the_address_holds_the_table(page):
    results(page, ROWS, margin="0.1")
    page.select_option("#baseline", "new")
    address, shown = page.evaluate("location.href"), page.inner_text("#result")
    assert "baseline" in shown and "equivalent" in shown
    page.goto("about:blank")
    page.goto(address)
    assert page.inner_text("#result") == shown and page.input_value("#table") == ROWS


def test_a_phone_shows_it_without_scrolling_sideways(page):
    from axe_playwright_python.sync_playwright import Axe

    results(page, ROWS)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert Axe().run(page).response["violations"] == []


def test_long_names_and_large_numbers_fit_a_phone(page):
    long = "llama-3-8b-instruct-lora-r64-alpha128-dropout0.05-epochs3-with-contrast"
    shown = results(page, f"name,mean,std,n\nbase,81200000,400000,5\n{long},83100000,600000,5\n")
    assert shown[long][-2] == "83100000" and shown[long][1].startswith("+1900000 ± ")
    assert page.eval_on_selector(".wide", "box => box.scrollWidth <= box.clientWidth")


def test_a_number_of_runs_is_no_run(page):
    found = results(page, "name,score,n\nbase,81.2 ± 0.5,5\nmore,82.1 ± 0.4,5\nsingle,82.0,1\n")
    assert "one run" in found["single"][0] and "82" in " ".join(found["single"])
    results(page, "name,score,n\nbase,81.2 ± 0.5,5\nseveral,82.0,3\n")
    assert "several" in page.text_content("#wrong") and "no ± deviation" in page.text_content("#wrong")
