"""Every picture: which are drawn, that nothing in one is cut or written over, and the same bytes each time."""

import base64
import io
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.axis import Axis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text
from PIL import Image

from contrastive.runs.recorded import Hardware, RecordedSection
from reports import figures
from reports.compare import compare
from reports.figures import comparisons, curves, neighbours, points
from reports.figures.canvas import wrapped
from reports.figures.marks import draw_marks
from reports.figures.points import aligned
from reports.markdown import score_text
from reports.messages import using
from reports.rows import cell_cost
from reports.statistics.summary import expected_best
from reports.study import Picture
from tests.reports.figures import sample
from tests.reports.made import content, put
from tests.tiers import rest_is_full

LONG = ("a configuration with a name that is far too long for any table · k=30 · α=0.5 · temperature=0.07", "b", "c")


def drawn(section: RecordedSection, folder: Path, **changes: Any) -> dict[str, figures.Figure]:
    results = sample.results(section, **changes)
    found = figures.draw(compare(section, results), results, folder, "it")
    return {figure.path.rsplit("-", 1)[1].split(".")[0]: figure for figure in found}


def without(section: RecordedSection, *shown: str) -> RecordedSection:
    return replace(section, show=section.show.model_copy(update=dict.fromkeys(shown, False)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "names"),
    [
        (sample.recipes(), ("pairs", "tsne", "spectra", "curves", "gradients")),
        (without(sample.recipes(labels=("ce", "rdrop")), "curves", "pairs", "spectra"), ("tsne",)),
        (without(sample.recipes(labels=("ce",)), "tsne", "curves", "spectra"), ()),
        (without(sample.pivot(), "tsne", "spectra"), ("heat", "curves", "gradients")),
    ],
)
def test_a_section_has_the_pictures_that_it_asks_for_and_has_data_for(section: Any, names: Any, tmp_path: Path):
    found = drawn(section, tmp_path)
    assert tuple(found) == names
    assert {figure.path for figure in found.values()} == set(content(tmp_path))
    for figure in found.values():
        assert "ce" in figure.alt


@pytest.mark.slow
def test_pictures_are_the_same_in_every_language_but_not_their_words(tmp_path: Path):
    for section in (sample.recipes(), sample.pivot()):
        english = drawn(section, tmp_path / "en")
        with using("zh"):
            chinese = drawn(section, tmp_path / "zh")
        assert content(tmp_path / "zh") == content(tmp_path / "en")
        for name, figure in chinese.items():
            assert re.search("[一-鿿]", figure.alt) and figure.alt != english[name].alt


def test_what_was_not_measured_is_not_drawn(tmp_path: Path):
    section = sample.recipes()
    results = sample.results(section)
    results.tsne.clear()
    empty = sample.Known(**vars(results) | {"curves": results.curves[:0], "scores": results.scores.iloc[:, :0]})
    compared = compare(section, results)
    nothing = replace(compared, scores=[], pairs={})
    left = [figure.path for figure in figures.draw(nothing, empty, tmp_path, "it")]
    assert left == ["figures/it-spectra.png"]
    assert figures.overview(empty, tmp_path) == []


@pytest.mark.full
def test_the_same_numbers_give_the_same_bytes_whatever_the_machine_prefers(tmp_path: Path):
    for folder, colour in (("one", "red"), ("two", "blue")):
        with matplotlib.rc_context({"axes.facecolor": colour, "svg.hashsalt": folder}):
            drawn(sample.recipes(), tmp_path / folder)
            drawn(without(sample.pivot(), "tsne", "curves"), tmp_path / folder / "pivot")
            figures.overview(sample.results(sample.recipes(), sample.pivot()), tmp_path / folder)
    one, two = content(tmp_path / "one"), content(tmp_path / "two")
    assert len(one) == 8 and one == two


@pytest.fixture
def canvases(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whatever is saved, as it was drawn."""
    kept, save = [], Canvas.savefig

    def keep(canvas: Any, path: Path, **named: Any) -> None:
        save(canvas, path, **named)
        canvas.set_dpi(72 if path.suffix == ".svg" else 200)  # where everything lies as it was saved
        FigureCanvasAgg(canvas)  # keeps one renderer, where a figure by itself makes another for each question
        kept.append(canvas)

    monkeypatch.setattr(Canvas, "savefig", keep)
    return kept


SECTIONS = {
    "list": sample.recipes(),
    "long": sample.recipes(labels=LONG),
    "pivot": sample.pivot(),
    "wide": sample.pivot(tuple(map(str, range(3))), tuple(f"{i / 100:.2f}" for i in range(11))),
    "60 rows": sample.many(60),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_is_full(SECTIONS, ("long", "pivot")))
def test_no_text_is_cut_off_small_or_written_over(name: str, canvases: list[Any], tmp_path: Path):
    section = SECTIONS[name]
    results = sample.results(section)
    dear = ("curves", "tsne") if len(section.rows) > 40 else ("curves",)
    figures.draw(compare(without(section, *dear), results), results, tmp_path, "it")
    figures.overview(results, tmp_path)
    for canvas in canvases:
        width, height = canvas.bbox.width, canvas.bbox.height
        for text in texts(canvas):
            box = text.get_window_extent(canvas.canvas.get_renderer())
            assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()
            assert text.get_fontsize() * 420 / 72 / canvas.get_figwidth() >= 6.4, text.get_text()  # pixels
        for axis in canvas.findobj(YAxis):
            boxes = [tick.label1.get_window_extent(canvas.canvas.get_renderer()) for tick in axis._update_ticks()]
            for one, other in itertools.pairwise(sorted(boxes, key=lambda box: box.y0)):
                assert one.y1 <= other.y0 + 1


def texts(canvas: Any) -> list[Text]:
    """All that can be read, without ticks beyond the ends of their axis."""
    axes = canvas.findobj(Axis)
    ticks = [label for axis in axes for label in axis.get_ticklabels(which="both")]
    seen = [tick for axis in axes if axis.axes.axison for tick in axis._update_ticks()]
    drawn = [label for tick in seen for label in (tick.label1, tick.label2)]
    return [
        text
        for text in canvas.findobj(Text)
        if text.get_visible() and text.get_text().strip() and (text not in ticks or text in drawn)
    ]


@pytest.mark.slow
def test_names_that_no_font_has_are_numbered_and_told_beside(tmp_path: Path):
    for name, figure in drawn(without(sample.recipes(labels=("交叉熵", "ce", "对比")), "curves"), tmp_path).items():
        assert "row 1 交叉熵" in str(figure.alt), name
        assert "row 3 对比" in str(figure.alt), name


def test_a_value_has_one_scale_of_colours_in_the_whole_report():
    small, large = sample.pivot(ks=("30",)), sample.pivot()
    results = sample.results(small, large)
    means = [results.scores["test.accuracy"].reindex(row.cells).mean() for row in large.rows]
    scale = comparisons.scale("test.accuracy", results)
    assert (scale.vmin, scale.vmax) == pytest.approx((min(means), max(means)))


def test_a_heat_map_says_means_and_deviations_of_all_vectors(canvases: list[Any], tmp_path: Path):
    section = sample.pivot()
    results = sample.results(section)
    compared = compare(section, results)
    comparisons.draw_heat(compared, results, tmp_path / "it")
    said = {text.get_text() for text in canvases[0].axes[0].texts}
    shown = {score_text(score.value, score.mean, score.deviation, 2) for score in compared.scores}
    assert said == {text.replace(" (", "\n(") for text in shown} and all(
        float(text.split("\n")[0]) > 1 for text in said
    )

    # it has the axes of each row and kind of vectors
    put(results.study, variants=("", "whiten/"))
    scores = results.scores.assign(**{"whiten/test.accuracy": results.scores["test.accuracy"] / 2})
    results = replace(results, scores=scores)
    comparisons.draw_heat(compare(section, results), results, tmp_path / "it")
    titles = [axis.get_title() for axis in canvases[1].axes if axis.get_title()]
    assert titles == [f"accuracy (test), %, embedding={kind}" for kind in ("as trained", "whiten")]


def test_where_floors_differ_contrastive_losses_are_shown_above_theirs():
    section = sample.pivot()
    known = curves.section_curves(section, sample.results(section))
    above = ("excess.supcon", "supcon: loss − floor", [1, 2, 3, 4, 5, 6])
    assert losses_of(section, known) == [above, ("loss", "training loss, floor unknown", [0])]
    for row in section.rows:
        put(row, settings={"loss": "ce+supcon", "k": "4", "alpha": row.label})
    assert losses_of(section, known) == [("loss", "training loss", [0, 1, 2, 3, 4, 5, 6])]


def losses_of(section: Any, known: Any) -> list[tuple[str, str, list[int]]]:
    return [(key, str(title), rows) for key, title, rows in curves.loss_panels(section, known)]


@pytest.mark.slow
def test_panels_of_a_figure_have_one_scale(canvases: list[Any], tmp_path: Path):
    section = sample.many(12)
    results = sample.results(section)
    curves.draw_curves(section, results, tmp_path / "it")
    curves.draw_terms(section, results, tmp_path / "it")
    limits = {(axis.get_title(), axis.get_ylim()) for axis in filter(Axes.get_title, canvases[0].axes)}
    assert len(limits) == len({title for title, _ in limits}) == 3
    assert len({axis.get_ylim() for axis in canvases[1].axes if axis.get_title()}) == 1
    assert all(len(axis.get_lines()) <= 8 for canvas in canvases for axis in canvas.axes)


@pytest.mark.parametrize("higher", [True, False])
def test_the_front_holds_what_nothing_as_cheap_exceeds(higher: bool):
    draws = np.random.default_rng(3)
    found = [points.Point(str(i), "", "", *draws.integers(1, 9, 2).astype(float)) for i in range(40)]
    sign = 1 if higher else -1
    pairs = {(point.seconds, point.score) for point in found}
    exceeded = {(s, v) for s, v in pairs for t, w in pairs - {(s, v)} if t <= s and sign * w >= sign * v}
    assert {(point.seconds, point.score) for point in points.front(found, higher)} == pairs - exceeded


def test_costs_are_those_measured_and_of_one_kind_of_device():
    noted = replace(sample.noted("c0s0", ()), wall_seconds=9.0, threads=4, processes=2, training_cpu_seconds=5.0)
    on_gpu = replace(noted, gpu_seconds=9.0, training_gpu_seconds=7.0)
    costs = [cost and (str(cost.device), cost.seconds) for cost in map(cell_cost, (noted, on_gpu))]
    assert costs == [("CPU-seconds of training", 5.0), ("GPU-seconds of training", 7.0)]
    assert cell_cost(replace(noted, training_cpu_seconds=None)) is None  # a cell of older code
    assert cell_cost(replace(on_gpu, training_gpu_seconds=None)) is None
    results = sample.results(sample.recipes())
    put(results.provenance("c1s0"), gpu_seconds=3.0)
    put(results.provenance("c2s0"), training_cpu_seconds=None)
    labels = [point.label for point in points.configurations(results, "test.accuracy")]
    assert labels == [row.label for row in results.study.sections[0].rows if not {"c1s0", "c2s0"} & {*row.cells}]


@pytest.mark.parametrize(
    "changed",
    [
        {"hardware": Hardware("cpu", "another CPU", 2, 4)},
        {"finished": "2026-01-02"},
        {"threads": 2},
        {"processes": 2},
        {"speed": {"reuse": "full"}},
        {"training_cpu_seconds": None},
    ],
)
def test_no_ratio_of_costs_is_said_where_cells_trained_apart(changed: dict[str, Any], tmp_path: Path):
    results = sample.results(sample.recipes())
    assert "costs" in str(points.draw_costs(results, tmp_path / "figure"))
    for cell in results.cells:
        put(results.provenance(cell), **(changed if cell.endswith("s0") else {}))
    assert points.draw_costs(results, tmp_path / "figure") is None


def test_a_sentence_on_costs_names_its_data_if_there_are_several():
    results = sample.results(sample.recipes())
    panels = [[points.Point("ce", data, "CPU-seconds of training", 2.0, 0.5)] for data in ("tweets", "reviews")]
    said = [str(points.costs_finding(some, "test.accuracy", True, results)) for some in (panels[:1], panels)]
    once = "ce has the best mean and costs least"
    assert [words.partition("; references")[0].rstrip(".") for words in said] == [
        once,
        f"tweets: {once}; reviews: {once}",
    ]


def test_the_best_of_lower_values_is_the_lowest_and_of_rows_with_all_their_seeds(tmp_path: Path):
    found = np.array([3.0, 1.0, 2.0, 5.0])
    assert curves.best_of_n(found, True)["best"].to_numpy() == pytest.approx(expected_best(found))
    falling = curves.best_of_n(found, False)["best"].to_numpy()
    assert falling[0] == pytest.approx(found.mean()) and (np.diff(falling) < 0).all() and falling[-1] > 1

    compared = compare(sample.pivot(), sample.results(sample.pivot()))
    assert curves.draw_search(compared, tmp_path / "it") is not None
    few = [replace(score, complete=place < 3) for place, score in enumerate(compared.scores)]
    assert curves.draw_search(replace(compared, scores=few), tmp_path / "it") is None


IDS = np.arange(50, dtype=np.uint64)
PLACES = np.random.default_rng(0).normal(size=(50, 2)) * [3, 1]


def test_a_picture_that_was_turned_mirrored_and_moved_lies_on_the_first_and_its_texts_are_found_by_their_ids():
    def picture(x: np.ndarray, ids: np.ndarray) -> Picture:
        return Picture("t-SNE", x, np.zeros(len(ids), int), ids)

    for mirror in (1, -1):
        turn = np.array([[0.6, -0.8], [0.8, 0.6]]) @ np.diag([1, mirror])
        other = picture((PLACES @ turn + [7, -4]).astype(np.float32), IDS)
        np.testing.assert_allclose(aligned(other, picture(PLACES, IDS)), PLACES - PLACES.mean(0), atol=1e-5)
    order = np.random.default_rng(1).permutation(50)
    found = aligned(picture(PLACES[order] @ np.array([[0.0, 1], [1, 0]]) * 5, IDS[order]), picture(PLACES, IDS))
    np.testing.assert_allclose(found, 5 * (PLACES - PLACES.mean(0))[order], atol=1e-12)  # distances stay
    others = picture(PLACES[::-1], IDS + np.uint64(50))  # by which nothing can be turned
    assert (aligned(picture(PLACES, IDS), others) == PLACES).all()


def test_a_name_longer_than_a_line_is_cut_and_not_dropped():
    assert wrapped("Int6_MLP3x_SmearGate_BigramHash against another", 20, 1) == "Int6_MLP3x_SmearGat…"
    assert wrapped("of Int6_MLP3x_SmearGate_BigramHash", 12) == "of Int6_MLP3\nx_SmearGate…"
    assert wrapped("short words stay as they were", 12, 1) == "short …" and wrapped("", 12) == ""


def test_images_are_drawn_with_their_neighbours_and_a_mark_below_those_of_another_class(tmp_path: Path):
    section = without(sample.recipes(), "curves", "pairs", "spectra")
    results = sample.results(section)
    near = np.full((2, 4, 1, 8, 8), 99, np.uint8)
    labels = np.array([[0, 0, 1, 0], [1, 1, 1, 1]])  # one of six neighbours is of another class
    with_images = {cell: replace(picture, near=near, near_labels=labels) for cell, picture in results.tsne.items()}
    found = figures.draw(compare(section, results), replace(results, tsne=with_images), tmp_path, "it")
    (figure,) = (each for each in found if each.path.endswith("neighbours.png"))
    assert "ce 83; rdrop 83; ce+supcon 83" in str(figure.caption) and (tmp_path / figure.path).exists()
    strip = neighbours.strip(near, labels)
    assert (strip[-1] != 255).all(1).sum() == 8  # the width of one image


def test_images_lie_on_their_points_in_the_colour_of_their_class_and_none_covers_another(tmp_path: Path):
    section = sample.recipes(labels=("ce", "rdrop"))
    results = sample.results(section)
    plain = points.draw_tsne(section, results, tmp_path / "plain")
    figure = points.draw_tsne(section, sample.with_images(results), tmp_path / "it")
    assert plain is not None and figure is not None and plain.marks is None and figure.marks is not None
    assert not plain.caption and str(figure.caption) == "Some points are drawn as their images."
    cards, side = figure.marks.cards, figure.marks.side
    places = np.array([place for _, place, _ in figure.marks.places])
    with Image.open(tmp_path / "it-tsne.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert pixels.shape[1::-1] == tuple(2 * length for length in figure.marks.size)
    greys = {2 * int(identity) % 200: int(label) for identity, label in zip(*seen(results), strict=True)}
    for (number, (left, top), beside), place in zip(figure.marks.places, places, strict=True):
        address, colour, name = cards[number]
        grey = pixels[2 * top + side, 2 * left + side]
        assert np.ptp(grey) == 0 and name == sample.CLASSES[greys[int(grey[0])]]  # that of its own id
        edge = pixels[2 * top + side, 2 * left - 3 : 2 * left + 5] - 255 * np.array(to_rgb(colour))
        assert np.abs(edge).max(1).min() < 40
        with Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as large:
            assert abs(np.asarray(large).mean() - grey[0]) < 4
        assert (np.abs(places - place).max(1) >= side - 1).sum() == len(places) - 1
        assert 0 <= beside[0] <= figure.marks.size[0] - figure.marks.large
    first = results.tsne[section.rows[0].cells[0]]
    assert len(places) < 2 * len(first.ids) and len({number for number, *_ in figure.marks.places}) == len(cards)


def seen(results: Any) -> tuple[np.ndarray, np.ndarray]:
    picture = next(iter(results.tsne.values()))
    return picture.ids % np.uint64(100), picture.labels


def test_an_image_lies_on_the_point_of_its_id(tmp_path: Path):
    """Whatever the order of the points; two of three are too near to each other, and the third has no image."""
    drawn = Canvas(figsize=(4, 4))
    axis = drawn.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, 1), ylim=(0, 1))
    ids, images = np.array([7, 5, 9], np.uint64), np.zeros((3, 1, 8, 8), np.uint8)
    there = np.array([[0.5, 0.25], [0.505, 0.25], [0.9, 0.9]])
    picture = Picture("t-SNE", there, np.array([0, 1, 2]), ids, images=images, image_ids=np.array([3, 5, 7], np.uint64))
    marks = draw_marks([(axis, picture, there)], ["a", "b", "c"])
    assert marks is not None and [name for _, _, name in marks.cards.values()] == ["b"]
    ((_number, (left, top), _beside),) = marks.places
    found = (np.array([left, top]) + marks.side / 2) / marks.size
    np.testing.assert_allclose(found, [0.505, 0.75], atol=0.003)
