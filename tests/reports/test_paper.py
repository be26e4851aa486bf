"""Tables for LaTeX and figures as PDF, with their statistics in the captions."""

import re
from pathlib import Path

import numpy as np
import pytest

from reports.paper import latex, write_paper
from tests.reports.made import made

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
