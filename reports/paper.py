"""Export a report for a paper: tables as LaTeX (booktabs), figures as PDF, with the statistics in the captions.

`paper.tex` compiles by itself and includes all pieces, for authors to copy from.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from reports.build import Report, SectionReport, file_names, replace_folder, report_of
from reports.figures import Figure
from reports.figures.canvas import as_pdf
from reports.study import Results
from reports.tables import BREAK, SIGNS, WORDS, Entry, Table

MAIN = "paper.tex"
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "α": r"$\alpha$", "τ": r"$\tau$", "·": r"$\cdot$", "–": "--",
        "→": r"$\to$", "≤": r"$\leq$", "≥": r"$\geq$", "…": r"\dots{}", "`": r"\textasciigrave{}",
    }
)  # fmt: skip
HEAD = r"""% Names in Chinese need xelatex with the package ctex.
\documentclass{article}
\usepackage[margin=2.5cm]{geometry}
\usepackage{booktabs,graphicx}
\setlength{\belowcaptionskip}{5pt}
\begin{document}
"""
FIGURE = r"""\begin{figure}[htbp]
\centering
\includegraphics[width=\linewidth,height=.8\textheight,keepaspectratio]{%s}
\caption{%s}
\label{fig:%s}
\end{figure}
"""
MEANS = "Mean over {seeds} seeds; bold: no other row was shown to be better."
VERDICTS = {verdict.replace(" ", "-") for verdict in WORDS}


def build_paper(results: Results, output: Path) -> Path:
    """Write tables and figures, replace the old ones, and return the path of `paper.tex`."""
    replace_folder(output, lambda fresh: write_paper(results, fresh))
    return output / MAIN


def write_paper(results: Results, folder: Path) -> None:
    """Write `paper.tex`, a `.tex` for each section, one for the comparisons of all sections, and the figures."""
    with as_pdf():
        report = report_of(results, file_names(results.study.sections), folder)
    pieces = {"comparisons": comparisons(report)}
    # sections may have any title
    pieces |= {f"section-{part.anchor}": section_tex(part, report) for part in report.sections}
    for name, text in pieces.items():
        (folder / f"{name}.tex").write_text(text, encoding="utf-8")
    included = "".join(f"\\input{{{name}}}\n" for name in pieces)
    (folder / MAIN).write_text(f"{HEAD}{included}\\end{{document}}\n", encoding="utf-8")


def comparisons(report: Report) -> str:
    """Return the figure of the report's first screen, with headline and explanation as its caption."""
    first = report.summary
    sentences = [sentence(first.task), f"{first.headline}.", first.setting, *first.notes]
    return figures_tex([report.forest] if report.forest else [], " ".join(sentences))


def sentence(text: str) -> str:
    return text if text[-1:] in ".?!" else f"{text}."


def section_tex(part: SectionReport, report: Report) -> str:
    """Return the tables that are unfolded in the report, and the figures."""
    tables = [table for table in part.tables if not table.folded]
    texts = [
        table_tex(table, caption(table, part, report), f"{part.anchor}-{number}")
        for number, table in enumerate(tables, start=1)
    ]
    return "\n".join([*texts, figures_tex(part.figures)])


def caption(table: Table, part: SectionReport, report: Report) -> str:
    """Return a caption that says what is shown, and what brackets and ± are."""
    counts = {len(row.cells) for row in part.section.rows}
    seeds = "–".join(map(str, sorted({min(counts), max(counts)})))
    sentences = [sentence(part.section.recorded.title)]
    sentences += [f"{table.caption}."] if table.caption else []
    sentences += [report.summary.setting, MEANS.format(seeds=seeds) if max(counts) > 1 else "One seed."]
    if any(entry.style in VERDICTS for row in table.rows for entry in row):
        sentences += ["Differences to the baseline.", *report.shared, *part.sentences]
    return " ".join(sentences)


def table_tex(table: Table, caption: str, name: str) -> str:
    frame = pd.DataFrame(
        [[entry_tex(entry) for entry in row] for row in table.rows], columns=[latex(words) for words in table.head]
    )
    return frame.style.hide(axis="index").to_latex(
        hrules=True,
        column_format="l" + "r" * (len(table.head) - 1),
        caption=latex(caption),
        label=f"tab:{name}",
        position="htbp",
        position_float="centering",
    )


def entry_tex(entry: Entry) -> str:
    """Format a field; verdicts lose their sign and keep their words."""
    words = entry.text.removeprefix(SIGNS.get(entry.style, "")).strip()
    text = latex(words.replace(BREAK, "; "))
    return rf"\textbf{{{text}}}" if entry.bold else rf"\emph{{{text}}}" if entry.style == "italic" else text


def figures_tex(figures: Sequence[Figure], caption: str = "") -> str:
    """Return figure environments; without a caption, the alternative text serves as one."""
    return "\n".join(FIGURE % (figure.path, latex(caption or figure.alt), Path(figure.path).stem) for figure in figures)


def latex(text: str) -> str:
    return text.translate(LATEX)
