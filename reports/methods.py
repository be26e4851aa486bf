"""The methods of a study, as a paper states them: sentences, citations, and a table of hyperparameters."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from contrastive.config import registry
from contrastive.config.cell import Tune, idle_rates
from contrastive.config.experiment import source_name, without_folders
from contrastive.config.objective import Objective
from contrastive.runs.recorded import RecordedRow
from reports.chosen import given_rows
from reports.markdown import SPLITS, heading, unit
from reports.messages import _, listed, n_
from reports.provenance import cells_by_data, counts_of
from reports.questions import Question
from reports.rows import shown_values
from reports.statistics.across import FEWEST
from reports.study import Results, Study
from reports.tables import Entry, Table

Place = tuple[str, str]  # a row, and one of the settings of a study
REFERENCES = Path(__file__).parent / "templates" / "references.bib"
SAME_PAPER = {"ntxent": "simclr", "dropout-ntxent": "simclr"}  # losses that the paper of another one defines
UNREAD = ("data.text", "data.label")  # columns, which say nothing of data in packages
NO_WORDS = re.compile(r'(, )?"\w+": (null|\[\])|["{}\[\]]')  # signs of JSON, and what is left out


def methods(results: Results, questions: Sequence[Question]) -> list[str]:
    """Return sentences on data, encoder, training, tuning, seeds and statistics; none for another program's runs."""
    if results.study.foreign is not None:
        return []
    return [*data_sentences(results), *training_sentences(results.study), *statistics_sentences(results, questions)]


def data_sentences(results: Results) -> list[str]:
    """Name each data set with its source, the digest of its content and the sizes of its splits."""
    lines = []
    rows = [row for section in results.study.sections for row in section.rows]
    for name, cells in cells_by_data(results).items():
        row = next(row for row in rows if row.data == name)
        counts = {split: sum(by_class.values()) for split, by_class in counts_of(results, cells).items()}
        sizes = [_("{count} {split}", count=count, split=_(SPLITS[split])) for split, count in counts.items() if count]
        words = _(
            "{name} ({source}, content {digest}): {sizes} examples.",
            name=name or results.study.source, source=without_folders((row.settings or {}).get("data.source", "")),
            digest=next((p.data_digest for cell in cells if (p := results.provenance(cell)) and p.data_digest), ""),
            sizes=listed(sizes),
        )  # fmt: skip
        lines += [words] if sizes else []
    if any(row.drawn for row in rows):
        lines.append(_("Each seed draws its own training examples."))
    return lines


def training_sentences(study: Study) -> list[str]:
    """Say what was trained, and which settings were tuned how."""
    models = listed(sorted(map(without_folders, settings_of(study, "encoder.model"))))
    lines = [_("The encoder is {models}, trained with AdamW; the table lists all hyperparameters.", models=models)]
    if study.choice is None:
        return [*lines, _("This experiment chose no hyperparameters.")]
    tried = listed(list(dict.fromkeys(value for row in study.chosen for value in row.tried)), most=20)
    words = _(
        "For each row and data set, the best of {tried} was chosen by {score}; no comparison uses its seeds ({seeds}).",
        tried=tried, score=heading(study.choice.by), seeds=listed(study.choice.seeds),
    )  # fmt: skip
    given = given_rows(study)
    return [*lines, words, _("The values of {rows} were given.", rows=listed(given))] if given else [*lines, words]


def seeds_and_software(results: Results) -> list[str]:
    """Name the seeds of the rows, and the software that trained them."""
    finished = {name for name, run in results.cells.items() if run.status == "finished"}
    rows = [row for section in results.study.sections for row in section.rows]
    held = [{seed for seed, cell in zip(row.seeds, row.cells, strict=True) if cell in finished} for row in rows]
    seeds, counts = sorted(set().union(*held)), sorted({len(each) for each in held if each})
    numbers = "–".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]])))
    made = [p for run in results.cells.values() if (p := run.provenance)]
    used = sorted({f"{name} {version}" for p in made for name, version in p.packages.items()})
    used += sorted({_("ablate-contrastive at commit {commit}", commit=p.commit) for p in made if p.commit})
    in_order = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    words = n_(
        "Each row was trained at {numbers} seed ({seeds}).", "Each row was trained at {numbers} seeds ({seeds}).",
        len(seeds), numbers=numbers, seeds=f"{seeds[0]}–{seeds[-1]}" if in_order else listed(seeds, most=20),
    )  # fmt: skip
    lines = [words] if seeds else []
    return [*lines, _("The software is {software}.", software=listed(used, most=20))] if used else lines


def statistics_sentences(results: Results, questions: Sequence[Question]) -> list[str]:
    """Say how differences and their means over data sets are tested."""
    study, means = results.study, [question for question in questions if question.means]
    lines = [
        *seeds_and_software(results),
        _("Differences are paired by seed and by test example."),
        _("Their 95 % intervals add the variance over seeds and over examples after Banerjee (1961)."),
        _("They hold for all rows and tested scores of a section together."),
    ]
    if any(value.startswith("transfer.") for part in study.sections for value in shown_values(part, results)):
        lines += [_("Scores of transfer data are paired by seed alone: their intervals leave out other examples.")]
    if means:
        lines += [_("A mean over data sets counts the paired differences of each data set once.")]
        lines += [_("Its interval adds the variances over seeds and examples, and says nothing of other data sets.")]
        lines += [_("Its cut-off for seeds is that of a parametric bootstrap with the spread of each data set.")]
        lines += [_("It holds for all rows and tested scores of a question together.")]
    if any(question.data_sets >= FEWEST for question in means):
        lines += [_("From {fewest} data sets on, their differences also speak of similar data sets.", fewest=FEWEST)]
        lines += [_("The mean has a t interval (data sets − 1 degrees of freedom; Bonferroni over rows and scores).")]
        lines += [_("One similar data set has a 95 % prediction interval by t, for each row and score alone.")]
    margins = [
        _("{margin} for {score}", margin=f"{unit(score) * margin:g}", score=heading(score))
        for score, margin in study.margins.items()
    ]
    if said := listed(margins):
        lines += [
            _("Rows are equivalent if the interval lies within the margin declared before: {margins}.", margins=said)
        ]
    if (most := study.most_seeds) is not None:
        lines += [_("Seeds were added, up to {most}, to open comparisons; intervals allow for all looks.", most=most)]
    return [*lines, _("± is half an interval; parentheses hold the standard deviation over seeds.")]


def hyperparameters(study: Study) -> Table | None:
    """Return a line for each setting: the value of most rows, then the others with their rows."""
    rows = [(row, (row.label, section.setting)) for section in study.sections for row in section.rows]
    held: dict[str, dict[str, set[Place]]] = {}  # setting → value → where
    for row, place in rows:
        for setting, value in read_settings(row).items():
            held.setdefault(setting, {}).setdefault(in_words(value), set()).add(place)
    every = {place for _row, place in rows}
    body = [
        [Entry(setting, style="code"), Entry(values_text(values, every), style="words")]
        for setting, values in sorted(held.items())
        if setting not in UNREAD
    ]
    return Table(None, [_("Hyperparameter"), _("value")], body) if body else None


def read_settings(row: RecordedRow) -> Mapping[str, str]:
    """Return the settings that the cells of a row read, with the defaults of its loss and view; all settings if these
    are of another version."""
    settings, chosen = row.settings or {}, ("loss", "view", *registry.variant_settings())
    objective = Objective.model_construct(**{name: settings.get(name, "") for name in chosen})  # type: ignore[arg-type]
    tune = Tune.model_validate_json(settings.get("encoder.tune", "{}"))
    with suppress(KeyError):
        unread = Objective.model_fields.keys() - objective.settings_read() | idle_rates(tune, objective)
        read = {name: value for name, value in settings.items() if name.rpartition(".")[2] not in unread}
        defaults = {name: objective.default_values(name) for name in objective.settings_read() - read.keys()}
        return read | {name: json.dumps(*held) for name, held in defaults.items() if len(held) == 1 and held != {None}}
    return settings


def in_words(value: str) -> str:
    """`last_blocks=2, lora r=8` for JSON; numbers and names as they are."""
    words = value.replace('"last_blocks": null', "last_blocks: all").replace('": {"', " ")
    parts = NO_WORDS.sub("", words).strip(", ").replace(": ", "=").split(", ")
    return ", ".join(map(without_folders, parts))


def values_text(values: Mapping[str, set[Place]], every: set[Place]) -> str:
    """`2; 4: R-Drop`: the value of most rows without their names, unless some rows lack the setting."""
    ordered = sorted(values.items(), key=lambda held: (-len(held[1]), held[0]))
    everywhere = set().union(*values.values()) == every
    parts = [
        value if number == 0 and everywhere else f"{value}: {places_text(places, every)}"
        for number, (value, places) in enumerate(ordered)
    ]
    return "; ".join(parts)


def places_text(places: set[Place], every: set[Place]) -> str:
    """Name rows, settings if all their rows are meant, or rows with their settings."""
    rows, settings = ({*names} for names in zip(*places, strict=True))
    if places == {(row, setting) for row, setting in every if row in rows}:
        return ", ".join(sorted(rows))
    if places == {(row, setting) for row, setting in every if setting in settings}:
        return ", ".join(sorted(settings))
    return ", ".join(f"{row} ({setting})" if setting else row for row, setting in sorted(places))


def settings_of(study: Study, setting: str) -> set[str]:
    return {value for section in study.sections for row in section.rows if (value := (row.settings or {}).get(setting))}


def cited(study: Study) -> dict[str, str]:
    """Map what the study uses and a paper defines (losses, encoders, data, adapters) to its BibTeX entry."""
    losses = {name for loss in settings_of(study, "loss") for name in loss.split("+")}
    used = {SAME_PAPER.get(name, name) for name in losses} | {"adamw", "banerjee"}
    used |= {source_name(value) for name in ("encoder.model", "data.source") for value in settings_of(study, name)}
    used |= {"lora"} if any('"r"' in value for value in settings_of(study, "encoder.tune")) else set()
    # a form of a name, such as `supcon_in` of `supcon`, is in the same paper
    return {key: entry for key, entry in references().items() if any(map(re.compile(f"{key}(_.*|w)?").fullmatch, used))}


@cache
def references() -> dict[str, str]:
    """Map keys to the entries of the bibliography, which has one a line."""
    lines = REFERENCES.read_text(encoding="utf-8").splitlines()
    return {line.partition("{")[2].partition(",")[0]: line for line in lines}
