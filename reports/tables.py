"""Markdown tables: a list with a row a configuration, or a pivot of two axes."""

import html
import re
from typing import Any

from contrastive.evaluation import Transfer
from reports.load import Results
from reports.statistics import Summary, summarise

MISSING = "–"


def section_tables(section: dict[str, Any], results: Results) -> list[str]:
    """One list table, or one pivot for each value that the section shows; and one of further data, where asked."""
    table = section["show"]["table"]
    if table["columns"] is None:
        found = [list_table(section, table["values"], results)]
    else:
        found = [pivot_table(section, value, results) for value in table["values"]]
    if section["show"].get("transfer"):
        found.append(list_table(section, transfer_values(results), results))
    return found


def transfer_values(results: Results) -> list[str]:
    """What each further data set is known for, and their mean, as tables of GLUE have it."""
    tasks = [Transfer.model_validate(task) for task in results.grid["experiment"]["evaluation"]["transfer"]]
    return [task.scores()[0] for task in tasks] + (["transfer.mean"] if len(tasks) > 1 else [])


def variants(values: list[str], results: Results) -> list[str]:
    """What is put before these scores: nothing, and the further vectors and post-processing of which they are known."""
    evaluation = results.grid["experiment"]["evaluation"]
    prefixes = [
        "".join(f"{part}/" for part in (other, how) if part)
        for other in ("", *evaluation.get("vectors", ()))  # a grid of before there were any has none
        for how in ("", *evaluation.get("post", ()))
    ]
    return [p for p in prefixes if not p or any(f"{p}{value}" in results.scores.columns for value in values)]


def rows_of(section: dict[str, Any], values: list[str], results: Results) -> list[dict[str, Any]]:
    """The rows of a table of these values: each configuration, and a row of its own for each variant of its vectors."""
    known = variants(values, results)
    if known == [""]:
        return [row | {"variant": ""} for row in section["rows"]]
    return [
        row
        | {"variant": variant, "axes": row["axes"] | {"embedding": variant.rstrip("/") or "as trained"}}
        | ({"label": f"{row['label']} · {variant.rstrip('/')}"} if variant else {})
        for row in section["rows"]
        for variant in known
    ]


def list_table(section: dict[str, Any], values: list[str], results: Results) -> str:
    rows = rows_of(section, values, results)
    cells = {(i, value): summary(row, value, results) for i, row in enumerate(rows) for value in values}
    best = {value: best_of([cells[i, value] for i in range(len(rows))], value, results) for value in values}
    lines = [["Configuration", *(heading(value) for value in values)]]
    for i, row in enumerate(rows):
        label = plain(row["label"]) + (" (baseline)" if row["baseline"] and len(rows) > 1 else "")
        lines.append([label, *(shown(cells[i, value], best[value]) for value in values)])
    for name, known in references(section, results).items():
        if any(value in known for value in values):
            scores = [known.get(value) for value in values]
            lines.append([f"*{plain(name)}*", *(MISSING if s is None else number(s) for s in scores)])
    return markdown(lines)


def pivot_table(section: dict[str, Any], value: str, results: Results) -> str:
    table = section["show"]["table"]
    across, down = table["columns"], table["rows"] or next(n for n in axis_names(section) if n != table["columns"])
    rows = rows_of(section, [value], results)
    inside = [row for row in rows if across in row["axes"] and down in row["axes"]]
    outside = [row for row in rows if row not in inside]
    columns, names = unique(row["axes"][across] for row in inside), unique(row["axes"][down] for row in inside)
    cells = {id(row): summary(row, value, results) for row in rows}
    best = best_of(list(cells.values()), value, results)
    lines = [[f"{plain(symbol(down))} \\ {plain(symbol(across))}", *(plain(column) for column in columns)]]
    for name in names:
        line = [plain(name)]
        for column in columns:
            here = [r for r in inside if r["axes"][down] == name and r["axes"][across] == column]
            rest = [further(r, (down, across)) if len(here) > 1 else "" for r in here]
            texts = [text + shown(cells[id(r)], best) for text, r in zip(rest, here, strict=True)]
            line.append("<br>".join(texts) or MISSING)
        lines.append(line)
    for row in outside:
        text = shown(cells[id(row)], best)
        label = plain(row["label"]) + (" (baseline)" if row["baseline"] else "")
        lines.append([label, *[text] * len(columns)])
    lines += [
        [f"*{plain(name)}*", *[number(known[value])] * len(columns)]
        for name, known in references(section, results).items()
        if value in known
    ]
    return f"{heading(value)}\n\n{markdown(lines)}"


def further(row: dict[str, Any], shown_elsewhere: tuple[str, ...]) -> str:
    """The axes of a row that a pivot shows neither down nor across."""
    rest = {name: value for name, value in row["axes"].items() if name not in shown_elsewhere}
    return ", ".join(f"{plain(symbol(name))}={plain(value)}" for name, value in rest.items()) + ": "


def references(section: dict[str, Any], results: Results) -> dict[str, dict[str, float]]:
    """What the section's data is measured against, named with its data where there are several: name → scores."""
    here = {row["data"] for row in section["rows"]}
    return {
        f"{reference['name']}, {reference['data']}" if reference["data"] else reference["name"]: reference["scores"]
        for reference in results.grid["references"]
        if reference["data"] in here
    }


def summary(row: dict[str, Any], value: str, results: Results) -> Summary | None:
    name = f"{row['variant']}{value}"
    if name not in results.scores.columns:
        return None
    return summarise([results.scores[name].get(cell, float("nan")) for cell in row["cells"]])


def best_of(summaries: list[Summary | None], value: str, results: Results) -> str | None:
    """The best mean as it is printed, so that equal numbers are equally best; None when there is nothing to compare."""
    means = [s.mean for s in summaries if s is not None]
    if len(means) < 2:
        return None
    higher = results.directions.get(value, {}).get("higher_is_better", True)
    if higher is None:  # it describes, and nothing is better
        return None
    return number(max(means) if higher else min(means))


def shown(summary: Summary | None, best: str | None) -> str:
    if summary is None:
        return MISSING
    text = number(summary.mean)
    text = f"**{text}**" if text == best else text
    return text if summary.half_width is None else f"{text} ± {number(summary.half_width)}"


def number(value: float) -> str:
    return f"{value:.4f}"


def heading(value: str) -> str:
    split, _, name = value.partition(".")
    return plain(f"{name.replace('_', ' ').replace('.', ' ')} ({split})")


def symbol(name: str) -> str:
    return {"k": "K", "alpha": "α", "temperature": "τ"}.get(name, name)


def axis_names(section: dict[str, Any]) -> list[str]:
    return unique(name for row in section["rows"] for name in row["axes"])


def unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def markdown(lines: list[list[str]]) -> str:
    """A table of cells that are Markdown already: what is not our own markup has gone through `plain`."""
    head, *body = lines
    rule = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))


MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_")  # an underscore within a word is none
BLOCK = re.compile(r"^(\s*)(?=(?:#{1,6}|[+-]|=+|-{3,})(?:\s|$))|^(\s*\d+)(?=[.)](?:\s|$))")


def plain(text: object) -> str:
    """A text of data or configuration as Markdown that shows it as it is: no link, picture, table, block or HTML."""
    shown = html.escape(MARKUP.sub(r"\\\g<0>", re.sub(r"\s+", " ", str(text))), quote=False)
    return BLOCK.sub(lambda found: found[0] + "\\", shown)


def code(text: str) -> str:
    """The same, set as code: between more backticks than it has in a row."""
    line = re.sub(r"\s+", " ", text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"
