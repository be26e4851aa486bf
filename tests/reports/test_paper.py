"""Tables for LaTeX and figures as PDF, with their statistics in the captions."""

import re
from pathlib import Path

import numpy as np
import pytest

from reports.methods import hyperparameters
from reports.paper import latex, write_paper
from tests.reports.made import made, put

SPECIAL = re.compile(r"(?<!\\)[#%]|(?<!\\)_(?!\{)")


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("paper"), np.random.default_rng(7)
    means = {"ce": 0.70, "R&D_50%": 0.80, "near #1": 0.701}
    values = {label: {"test.accuracy": list(mean + 0.004 * random.normal(size=4))} for label, mean in means.items()}
    _, results = made(values)
    write_paper(results, folder)
    return folder


def test_a_table_has_what_the_report_has_with_its_statistics_in_the_caption(paper: Path):
    text = (paper / "section-a-section.tex").read_text()
    assert re.search(r"R\\&D\\_50\\% & \\textbf\{80\.\d+ \(0\.\d+\)\}", text) and r"\toprule" in text
    assert re.search(r"\} & better \+\d+\.\d+ \$\\pm\$ \d", text)
    caption = " ".join(re.findall(r"\\caption\{(.*)\}", text))
    assert caption == (
        "A section Scores on texts.csv: mean (standard deviation) over 4 seeds. Bold: no other row was shown to be "
        "better. Differences to the baseline with joint 95 \\% intervals."
    )
    assert "Needed to decide" not in text


def test_the_methods_name_the_hyperparameters_and_cite_what_they_use(paper: Path):
    text, main = ((paper / name).read_text() for name in ("methods.tex", "paper.tex"))
    assert "Banerjee (1961)" in text and r"loss & R\&D\_50\%; ce: ce; " in text
    keys = re.findall(r"\\cite\{(.*?)\}", text)[0].split(",")
    entries = (paper / "references.bib").read_text()
    assert keys and all(f"{{{key}," in entries for key in keys)
    assert r"\bibliography{references}" in main
    assert "Each row was trained at 4 seeds (0--3). The software is python 3.11, torch 2" in text


def test_hyperparameters_are_in_words_and_only_those_that_a_row_reads():
    tune = '{"last_blocks": 2, "lora": {"r": 8, "alpha": 16.0, "targets": []}, "frozen_dropout": false}'
    common = {"encoder.scratch": '{"layers": 6, "patch": null}', "layers": "[4, 5]", "k": "30", "alpha": "1.0"}
    common |= {"training.layer_decay": "0.9", "data.source": "file:/home/me/own.csv", "data.test": "/home/me/test.csv"}
    full = '{"last_blocks": null, "lora": null, "frozen_dropout": true}'
    plain, adapted = (
        {"loss": "ce", "encoder.tune": full},
        {"loss": "ce+supcon", "view": "topk_tokens", "encoder.tune": tune},
    )
    part, results = made({"plain": {"test.accuracy": [0.5, 0.6]}, "adapted": {"test.accuracy": [0.7, 0.8]}})
    for one, own in zip(part.rows, (plain, adapted), strict=True):
        put(one, settings=common | own)
    table = hyperparameters(results.study)
    assert table is not None and {line[0].text: line[1].text for line in table.rows} == {
        "alpha": "1.0: adapted",
        "data.source": "file:own.csv",
        "data.test": "test.csv",
        "encoder.scratch": "layers=6",
        "encoder.tune": "last_blocks=2, lora r=8, alpha=16.0, frozen_dropout=false; "
        "last_blocks=all, frozen_dropout=true: plain",
        "k": "30: adapted",
        "loss": "ce; ce+supcon: adapted",
        "training.layer_decay": "0.9: plain",  # adapters have none
        "view": "topk_tokens: adapted",
        "temperature": "0.1: adapted",  # the default of the loss
    }


def test_paper_tex_includes_every_piece_and_no_character_ends_a_line_or_a_formula(paper: Path):
    main = (paper / "paper.tex").read_text()
    pieces = {path.stem for path in paper.glob("*.tex")} - {"paper"}
    assert set(re.findall(r"\\input\{(.*?)\}", main)) == pieces
    for name in pieces:
        text = (paper / f"{name}.tex").read_text()
        assert not SPECIAL.search(re.sub(r"\\(label|includegraphics)\S*\{.*?\}", "", text)), name
        for path in re.findall(r"\\includegraphics\[.*?\]\{(.*?)\}", text):
            assert (paper / path).read_bytes().startswith(b"%PDF")
    assert r"\includegraphics" in (paper / "comparisons.tex").read_text()


def test_what_latex_reads_as_a_command_is_text():
    assert latex("a_b {c} \\d ~ ^ $") == r"a\_b \{c\} \textbackslash{}d \textasciitilde{} \textasciicircum{} \$"
    assert latex("[CLS] β") == r"{[}CLS] $\beta$"  # a row may begin with it, after the end of a line
    assert latex("−1 × α ≥ 2 – …") == r"$-$1 $\times$ $\alpha$ $\geq$ 2 -- \dots{}"
