"""Questions that are asked in several settings: which rows have a mean, what it says, and where it stands."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from contrastive.runs.recorded import ChosenRow
from reports.build import write_report
from reports.chosen import bars
from reports.looks import compare_section
from reports.messages import using
from reports.methods import methods
from reports.paper import build_paper
from reports.questions import Question, means_table, questions_of, settings_table, statements
from reports.study import Results
from tests.reports.made import cell_run, made, put

NAME = "test.accuracy"
EFFECTS = {"ce": 0.0, "up": 0.1, "down": -0.1, "mixed": 0.0}


def asked(settings: dict[str, dict[str, float]], data: dict[str, str] | None = None, seeds: int = 4) -> Results:
    """One question: setting → row → its mean; `data`: setting → digest of its data, if they share any."""
    generator, parts, results = np.random.default_rng(3), [], []
    for setting, means in settings.items():
        values = {name: {NAME: list(0.5 + mean + 0.01 * generator.normal(size=seeds))} for name, mean in means.items()}
        part, result = made(values)
        names = {cell: f"{setting}/{cell}" for row in part.rows for cell in row.cells}
        rows = [replace(row, cells=[names[cell] for cell in row.cells], data=setting) for row in part.rows]
        title = f"Does it help? ({setting})"
        parts.append(replace(part, rows=rows, title=title, question="Does it help?", setting=setting))
        put(result.study, stopping=None)
        digest = (data or {}).get(setting, setting)
        runs = {
            names[cell]: cell_run(names[cell], run.params, replace(run.provenance, data_digest=digest))
            for cell, run in result.cells.items()
            if run.provenance
        }
        measured = result.measured.assign(cell=result.measured["cell"].map(names))
        results.append(
            replace(result, cells=runs, scores=result.scores.rename(index=names), measured=measured, known={})
        )
    first = results[0]
    titles = [part.title for part in parts]
    study = replace(
        first.study,
        sections=parts,
        varied={title: {"loss"} for title in titles},
        baselines=frozenset(titles),
        source="many",
    )
    return replace(
        first,
        study=study,
        cells={cell: run for result in results for cell, run in result.cells.items()},
        scores=pd.concat([result.scores for result in results]),
        measured=pd.concat([result.measured for result in results]),
    )


def question(results: Results) -> Question:
    (found,) = questions_of([compare_section(part, results)[1] for part in results.study.sections], results)
    return found


def verdicts(found: Question) -> dict[str, str]:
    return {row.label: row.verdict for row in found.means[NAME]}


def test_a_question_has_the_mean_of_each_row_over_its_settings():
    effects = {name: EFFECTS | {"mixed": size} for name, size in {"a": 0.1, "b": -0.1, "c": 0.01}.items()}
    found = question(asked(effects))
    assert verdicts(found) == {"up": "better", "down": "worse", "mixed": "undecided"}
    up, _, mixed = found.means[NAME]
    assert (up.count("better"), up.count("worse"), mixed.count("better"), mixed.count("worse")) == (3, 0, 1, 1)
    table = means_table(found, NAME)
    assert table.head[1:3] == ["on these 3 data sets, on average", "settings"]
    line = [entry.text for entry in table.rows[0]]
    assert line[1].startswith("▲ better +9") and line[2] == "better in 3, worse in 0 of 3" and len(line) == 3
    each = settings_table(found, NAME)
    assert each.head[1:] == ["a", "b", "c"] and [entry.text[0] for entry in each.rows[2][1:]] == ["▲", "▼", "?"]
    assert statements(found, NAME)[-1] == "Nothing is said of other data sets: that takes 5."


def test_settings_with_the_same_data_count_as_one_data_set():
    effects = {name: EFFECTS | {"mixed": size} for name, size in {"a": 0.3, "b": 0.0, "c": 0.0}.items()}
    apart, shared = question(asked(effects)), question(asked(effects, {"b": "same", "c": "same"}))
    assert (apart.data_sets, shared.data_sets) == (3, 2)
    assert abs(apart.means[NAME][2].mean.difference - 0.1) < 0.02 < abs(shared.means[NAME][2].mean.difference - 0.1)


def test_the_data_set_that_a_verdict_depends_on_is_named():
    effects = {name: EFFECTS | {"mixed": size} for name, size in {"a": 0.2, "b": 0.004, "c": -0.004}.items()}
    found = question(asked(effects))
    mixed = found.means[NAME][2]
    assert mixed.verdict == "better" and mixed.left_out == "a" and mixed.without is not None
    assert any(line.startswith("Without a, mixed is ") for line in statements(found, NAME))
    assert not found.means[NAME][0].left_out


def test_from_five_data_sets_on_there_is_a_statement_about_others():
    sizes = {name: 0.1 * (1 if number % 2 else -1) for number, name in enumerate("abcde")}
    results = asked({name: EFFECTS | {"mixed": 0.05 + size} for name, size in sizes.items()})
    found = question(results)
    assert "data sets − 1 degrees of freedom" in " ".join(methods(results, [found]))
    up, _, mixed = found.means[NAME]
    assert (up.verdict, up.general) == ("better", "better") and mixed.general == "undecided"
    table = means_table(found, NAME)
    assert table.head[-2:] == ["similar data sets, on average", "one similar data set"]
    assert table.rows[2][-2].text.startswith("undecided +")


def test_a_row_that_lacks_a_setting_or_its_scores_has_no_mean():
    effects = {name: dict(EFFECTS) for name in "abc"}
    del effects["b"]["up"]
    results = asked(effects)
    results.scores.loc["c/down-0", NAME] = np.nan
    found = question(results)
    assert set(verdicts(found)) == {"mixed"}
    assert "Without a mean, since not every setting tests it against the same row: up and down." in statements(
        found, NAME
    )
    assert questions_of([compare_section(results.study.sections[0], results)[1]], results) == []
    first = results.study.sections[0]
    other = [replace(row, label="α 0.5") if row.baseline else row for row in first.rows]
    put(results.study, sections=[replace(first, rows=other), *results.study.sections[1:]])
    assert question(results).means == {}


def test_a_question_without_a_mean_says_so_and_links_lead_to_their_question(tmp_path: Path):
    results = asked({name: dict(EFFECTS) for name in ("a", "b")})
    lacking = [replace(part, question="First?", title=f"First? ({part.setting})") for part in results.study.sections]
    for number, part in enumerate(lacking):
        rows = [replace(row, cells=[f"no-{n}-{row.label}" if number else n for n in row.cells]) for row in part.rows]
        lacking[number] = replace(part, rows=rows)
    put(results.study, sections=[*lacking, *results.study.sections])
    write_report(results, tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<a href="#over-data-sets-2">Does it help?</a>' in page and 'id="over-data-sets-1"' in page
    assert "Without a mean, since not every setting tests it" in page


def test_a_report_shows_means_first_then_the_settings(tmp_path: Path):
    two = asked({name: dict(EFFECTS) for name in ("first", "second")})
    write_report(two, tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    headline = next(line for line in text.splitlines() if line.startswith("**"))
    assert headline == (
        "**Use up: +9.8 ± 1.6 points over ce on average over 2 data sets, for the same training time. "
        "up: better on both; down: worse on both; mixed: undecided on both.**"
    )
    told = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))
    assert told["answers"][0]["answer"] == headline.strip("*") and told["next"]["command"]
    assert [(row["row"], row["verdict"], [*row["settings"]]) for row in told["rows"]] == [
        (label, verdict, ["first", "second"])
        for label, verdict in (("up", "better"), ("mixed", "undecided"), ("down", "worse"))
    ]
    heads = [line for line in text.splitlines() if line.startswith("## ")][:3]
    assert heads == ["## Does it help?", "## Does it help? (first)", "## Does it help? (second)"]
    means = pd.read_csv(tmp_path / "means.csv")
    assert list(means["row"]) == ["up", "down", "mixed"] and set(means["data_sets"]) == {2}
    build_paper(two, tmp_path / "paper")
    for_paper = (tmp_path / "paper" / "comparisons.tex").read_text(encoding="utf-8")
    told = (tmp_path / "paper" / "methods.tex").read_text(encoding="utf-8")
    assert "of each data set once" in told and "prediction interval" not in told  # of two
    assert "on these 2 data sets, on average" in for_paper and "differences in each setting" in for_paper
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count('class="mean ') == 3 and page.count('class="part"') == 6
    with using("zh"):
        assert not any("data sets" in line for line in statements(question(two), NAME))


def test_the_values_that_were_tried_have_bars():
    row = ChosenRow("Does it help?", "R-Drop", "encoder_lr 0.001", {"a": 0.1, "b": 0.3, "c": None, "d": 0.2}, False)
    assert bars(row, ["a", "b", "c", "d", "e"]) == "▁█·▅"


def test_a_mean_that_is_open_over_decided_settings_is_not_called_decided(tmp_path: Path):
    write_report(asked({"a": {"ce": 0.0, "mixed": 0.1}, "b": {"ce": 0.0, "mixed": -0.1}}), tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Undecided on average: mixed. Add seeds or data sets to" in text and "All comparisons" not in text
