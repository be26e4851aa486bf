"""Export a report for a paper: methods, tables as LaTeX (booktabs), figures as PDF, and the papers to cite.

`paper.tex` compiles by itself and includes all pieces, for authors to copy from.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from contrastive.config.scores import title_of
from reports.build import Report, SectionReport, file_names, replace_folder, report_of
from reports.figures import Figure
from reports.figures.canvas import as_pdf
from reports.markdown import score_name
from reports.messages import _
from reports.methods import cited
from reports.study import Results
from reports.tables import BREAK, NEEDED, SIGNS, WORDS, Entry, Table

MAIN = "paper.tex"
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "[": "{[}", "<": r"\textless{}", ">": r"\textgreater{}",
        "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$", "–": "--",
        "≠": r"$\neq$", "∞": r"$\infty$", "≈": r"$\approx$",
        "→": r"$\to$", "≤": r"$\leq$", "≥": r"$\geq$", "…": r"\dots{}", "`": r"\textasciigrave{}",
    }
)  # fmt: skip
for letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ":
    spelled = unicodedata.name(letter).replace("LAMDA", "LAMBDA").rpartition(" ")[2]
    LATEX[ord(letter)] = rf"$\{spelled.capitalize() if letter.isupper() else spelled.lower()}$"
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
VERDICTS = {verdict.replace(" ", "-") for verdict in WORDS}
VALUES = r"""\begin{table}[htbp]
\centering
\caption{Hyperparameters. A value without rows is that of most rows.}
\label{tab:hyperparameters}
\begin{tabular}{lp{.7\linewidth}}
\toprule
%s
\bottomrule
\end{tabular}
\end{table}
"""
# at most as wide as the page
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{\begin{tabular}"
BIBLIOGRAPHY = "\\bibliographystyle{plain}\n\\bibliography{references}\n"


def build_paper(results: Results, output: Path) -> None:
    """Write tables and figures, and replace the old ones."""
    replace_folder(output, lambda fresh: write_paper(results, fresh))


def write_paper(results: Results, folder: Path) -> None:
    """Write `paper.tex`, a `.tex` for each section, one for the comparisons of all sections, and the figures."""
    with as_pdf():
        report = report_of(results, file_names(results.study.sections), folder)
    pieces = {"methods": methods_tex(report), "comparisons": comparisons(report)}
    # sections may have any title
    pieces |= {f"section-{part.anchor}": section_tex(part, report) for part in report.sections}
    for name, text in pieces.items():
        (folder / f"{name}.tex").write_text(text, encoding="utf-8")
    included = "".join(f"\\input{{{name}}}\n" for name in pieces)
    references = cited(report.study)
    (folder / "references.bib").write_text("".join(f"{entry}\n" for entry in references.values()), encoding="utf-8")
    included += BIBLIOGRAPHY if references else ""
    (folder / MAIN).write_text(f"{HEAD}{included}\\end{{document}}\n", encoding="utf-8")


def methods_tex(report: Report) -> str:
    """Return the methods, the papers that define what was used, and the table of hyperparameters."""
    keys = ",".join(cited(report.study))
    sources = f"The methods, models and data are those of~\\cite{{{keys}}}." if keys else ""
    text = f"\\section*{{Methods}}\n{latex(' '.join(report.methods))} {sources}\n"
    if report.hyperparameters is None:
        return text
    lines = [" & ".join(latex(entry.text) for entry in row) + r" \\" for row in report.hyperparameters.rows]
    return f"{text}\n{VALUES % chr(10).join(lines)}"


def comparisons(report: Report) -> str:
    """Return the figure of the report's first screen, and the tables of questions over data sets."""
    chart = report.summary.chart
    words = f"Differences to the baseline in {score_name(title_of(chart.score))}, with joint 95 % intervals."
    words += f" Grey: ± {chart.margin:g}, too little to matter." if chart.margin else ""
    words += " Diamonds: means over data sets; below them, each data set." if report.questions else ""
    tables = [
        table_tex(
            table, f"{part.question.title} {table.caption}, with joint 95 % intervals.", f"{part.anchor}-{number}"
        )
        for part in report.questions
        for number, table in enumerate(part.tables, start=1)
    ]
    return "\n".join([figures_tex([report.forest] if report.forest else [], words), *tables])


def section_tex(part: SectionReport, report: Report) -> str:
    """Return the tables that are unfolded in the report, and the figures."""
    tables = [table for table in part.tables if not table.folded]
    texts = [
        table_tex(table, caption(table, part, report), f"{part.anchor}-{number}")
        for number, table in enumerate(tables, start=1)
    ]
    return "\n".join([*texts, figures_tex(part.figures)])


def caption(table: Table, part: SectionReport, report: Report) -> str:
    """Return a caption that stands alone, in at most some 40 words."""
    recorded = part.section.recorded
    counts = {len(row.cells) for row in part.section.rows}
    seeds = "–".join(map(str, sorted({min(counts), max(counts)})))
    words = f"{recorded.title} {table.caption or 'Scores'} on {recorded.setting or report.study.source}: "
    words += f"mean (standard deviation) over {seeds} seeds. Bold: no other row was shown to be better."
    if any(entry.style in VERDICTS for row in table.rows for entry in row):
        words += " Differences to the baseline with joint 95 % intervals."
    return words


def table_tex(table: Table, caption: str, name: str) -> str:
    shown = [number for number, words in enumerate(table.head) if words != _(NEEDED)]
    frame = pd.DataFrame(
        [[entry_tex(row[number]) for number in shown] for row in table.rows],
        columns=[latex(table.head[number]) for number in shown],
    )
    text: str = frame.style.hide(axis="index").to_latex(
        hrules=True,
        column_format="l" + "r" * (len(shown) - 1),
        caption=latex(caption),
        label=f"tab:{name}",
        position="htbp",
        position_float="centering",
    )
    return text.replace(r"\begin{tabular}", FITTED).replace(r"\end{tabular}", r"\end{tabular}}")


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
