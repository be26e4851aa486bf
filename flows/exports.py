"""`ablate export`: the encoder of a cell, of a row, or of the best row of a section."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from contrastive.config.cell import add_plugin
from contrastive.errors import UserError
from contrastive.export import export_cell
from contrastive.grid.messages import nearest_name
from contrastive.runs import plugins, store
from contrastive.runs.recorded import RecordedSection
from flows.show import find_run_folder, read_content
from flows.terminal import say
from flows.upkeep import apply_file
from reports.answers import size_text
from reports.build import compare_sections
from reports.compare import RowScore, Section
from reports.load import load
from reports.markdown import unit, with_unit
from reports.overview import primary
from reports.study import Results
from reports.tables import is_negligible, verdict_text
from tasks.address import tracking_uri
from tasks.tracking import as_tracking_error, open_tracker, runs_of_cells

LOADER = "mlflow.sentence_transformers"  # loads the folder as it is


def export(what: str, into: Path, row: str, best: str, post: str, register: str) -> None:
    """Write the encoder of a cell, or of a row of an experiment file, into a folder."""
    if bool(row) + bool(best) != Path(what).is_file():
        raise UserError("give the id of a cell, or an experiment file with --row NAME or --best SECTION")
    verdicts = list[str]()
    if row or best:
        experiment = apply_file(Path(what))
        with as_tracking_error():
            results = load(experiment, tracking_uri(store.home()))
        sections = [section for _fired, section in compare_sections(results)]
        cell = first_cell_of(row, sections) if row else best_cell_of(best, sections, results)
        verdicts = list(verdicts_on(cell, sections))
        run = find_run_folder(cell)
    else:
        run = find_run_folder(what)
    refuse_code_of_others(run)
    export_cell(run, into, post, verdicts)
    say(f'{into}: load it by SentenceTransformer("{into}")')
    if register:
        say(f"registered in MLflow: models:/{register}/{registered(run, into, register)}")


def refuse_code_of_others(run: Path) -> None:
    config = read_content(run / "config.json")
    for copy in (used := config.get("cell", {}).get("plugins", ())):
        add_plugin(copy)  # an error here is one sentence, in a Cell a list of pydantic's
    plugins.refuse_others(used)


def first_cell_of(name: str, sections: Sequence[Section]) -> str:
    """Return the cell of a row at its first seed, never at its best one."""
    found = {named(row.label, part.recorded): row.cells[0] for part in sections for row in part.rows if not row.variant}
    if name not in found:
        raise UserError(f"there is no row `{name}`{nearest_name(name, found)}")
    return found[name]


def named(label: str, section: RecordedSection) -> str:
    """Return the name of a row, with its setting if there are several."""
    return f"{label} ({section.setting})" if section.title != section.question and section.setting else label


def best_cell_of(title: str, sections: Sequence[Section], results: Results) -> str:
    """Return the first cell of the row that was shown to be better by most, or of the baseline if none was."""
    by_title = {section.recorded.title: section for section in sections}
    if title not in by_title:
        raise UserError(f"there is no section `{title}`{nearest_name(title, by_title)}")
    value = primary(results, sections)
    compared = [(score, pair) for score, pair in by_title[title].comparisons if score.value == value]
    better = [(score, pair) for score, pair in compared if score.verdict == "better" and not score.row.variant]
    if better:
        winner = max(better, key=lambda each: abs(each[1].difference))[0].row
        say(f"{winner.label} is exported, at its first seed: the largest significant gain of “{title}”")
        return winner.cells[0]
    if not compared:
        raise UserError(f"no row of “{title}” is compared: name one with --row")
    baseline = compared[0][1].against
    say(f"nothing was shown to be better than {baseline.label} in “{title}”: {baseline.label} is exported")
    return baseline.cells[0]


def verdicts_on(cell: str, sections: Sequence[Section]) -> Iterator[str]:
    """Say how the row of a cell compares to others, and with which of its sections' rows it was not compared."""
    for section in sections:
        rows = {row.number: row for row in section.rows if not row.variant}
        ours = next((row for row in rows.values() if cell in row.cells), None)
        if ours is None:
            continue
        others = {row.label for row in rows.values() if row != ours}
        for score, pair in section.comparisons:
            if score.row == ours or pair.against == ours:
                others -= {score.row.label, pair.against.label}
                yield f"{section.recorded.title} {comparison_text(score, section)}"
        if others:
            yield f"{section.recorded.title} Not compared with: {', '.join(sorted(others))}."


def comparison_text(score: RowScore, section: Section) -> str:
    pair, places = score.comparison, section.places(score.value).difference
    assert pair is not None
    size = with_unit(size_text(score.value, pair.difference, pair.half_width, places), unit(score.value) > 1)
    verdict = verdict_text(score.verdict, is_negligible(score))
    words = f"{score.row.label} against {pair.against.label}, {score.value}: {size}, {verdict}"
    return f"{words} ({len(score.row.cells)} seeds; 95 % interval)."


def registered(run: Path, folder: Path, name: str) -> str:
    """Register an exported folder as a model in MLflow; return its version."""
    import mlflow

    client = open_tracker(store.home())
    with as_tracking_error():
        mlflow.set_tracking_uri(tracking_uri(store.home()))
        experiments = [each.name for each in client.search_experiments()]
        runs = [found for each in experiments for found in runs_of_cells(client, each).get(run.name, [])]
        if not runs:
            raise UserError(f"MLflow has no run of {run.name}: bring it up to date with `ablate sync FILE`")
        with mlflow.start_run(run_id=runs[0].info.run_id):
            model = mlflow.pyfunc.log_model(
                name="model", loader_module=LOADER, data_path=str(folder), registered_model_name=name,
                pip_requirements=["sentence-transformers"],
            )  # fmt: skip
    return str(model.registered_model_version)
