"""Every picture: which are drawn, that nothing in one is cut or written over, and the same bytes each time."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axis import Axis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text

from contrastive.runs.recorded import RecordedSection
from reports import figures
from reports.compare import compare
from reports.figures import curves, embeddings, images
from reports.figures.canvas import COLOURS, wrapped
from reports.rows import cell_cost, row_cost
from reports.study import Picture, Results
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


@pytest.mark.parametrize(
    ("section", "names"),
    [
        (sample.recipes(), ("tsne", "curves")),
        (without(sample.recipes(labels=("ce", "rdrop")), "curves"), ("tsne",)),
        (without(sample.recipes(labels=("ce",)), "tsne", "curves"), ()),
        (without(sample.pivot(), "tsne"), ("curves",)),
    ],
)
def test_a_section_has_the_pictures_that_it_asks_for_and_has_data_for(section: Any, names: Any, tmp_path: Path):
    found = drawn(section, tmp_path)
    assert tuple(found) == names
    assert {figure.path for figure in found.values()} == set(content(tmp_path))
    assert all("ce" in figure.alt for figure in found.values())


def test_what_was_not_measured_is_not_drawn(tmp_path: Path):
    section = sample.recipes()
    results = sample.results(section)
    results.tsne.clear()
    empty = Results(**vars(results) | {"curves": results.curves[:0], "scores": results.scores.iloc[:, :0]})
    compared = compare(section, results)
    nothing = replace(compared, scores=[])
    assert figures.draw(nothing, empty, tmp_path, "it") == []


@pytest.mark.full
def test_the_same_numbers_give_the_same_bytes_whatever_the_machine_prefers(tmp_path: Path):
    for folder, colour in (("one", "red"), ("two", "blue")):
        with matplotlib.rc_context({"axes.facecolor": colour, "svg.hashsalt": folder}):
            drawn(sample.recipes(), tmp_path / folder)
            drawn(without(sample.pivot(), "tsne", "curves"), tmp_path / folder / "pivot")
    one, two = content(tmp_path / "one"), content(tmp_path / "two")
    assert len(one) == 2 and one == two


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
    "30 rows": sample.many(30),
}


@pytest.mark.parametrize("name", rest_is_full(SECTIONS, ("long", "pivot")))
def test_no_text_is_cut_off_small_or_written_over(name: str, canvases: list[Any], tmp_path: Path):
    section = SECTIONS[name]
    results = sample.results(section)
    figures.draw(compare(section, results), results, tmp_path, "it")
    for canvas in canvases:
        width, height = canvas.bbox.width, canvas.bbox.height
        for text in texts(canvas):
            box = text.get_window_extent(canvas.canvas.get_renderer())
            assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()
            assert text.get_fontsize() * 420 / 72 / canvas.get_figwidth() >= 6.4, text.get_text()  # pixels
        for axis in canvas.findobj(YAxis):
            labels = [tick.label1 for tick in axis._update_ticks() if tick.label1.get_visible()]
            boxes = [label.get_window_extent(canvas.canvas.get_renderer()) for label in labels if label.get_text()]
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


def test_names_that_no_font_has_are_numbered_in_the_figure_and_its_text(tmp_path: Path):
    for name, figure in drawn(without(sample.recipes(labels=("交叉熵", "ce", "对比")), "curves"), tmp_path).items():
        assert "1 交叉熵, 2 ce, 3 对比" in str(figure.alt), name


def test_where_floors_differ_contrastive_losses_are_shown_above_theirs():
    section = sample.pivot()
    known = sample.results(section).curves
    above = ("excess.supcon", "supcon: loss − floor", [1, 2, 3, 4, 5, 6])
    assert losses_of(section, known) == [above, ("loss", "training loss, floor unknown", [0])]
    for row in section.rows:
        put(row, settings={"loss": "ce+supcon", "k": "4", "alpha": row.label})
    assert losses_of(section, known) == [("loss", "training loss", [0, 1, 2, 3, 4, 5, 6])]


def losses_of(section: Any, known: Any) -> list[tuple[str, str, list[int]]]:
    return [(key, str(title), rows) for key, title, rows in curves.loss_panels(section, known)]


def test_lines_of_many_configurations_can_be_told_apart(canvases: list[Any], tmp_path: Path):
    section = sample.many(12)
    results = sample.results(section)
    curves.draw_curves(section, results, tmp_path / "it")
    for axis in (canvases[0].axes[0], canvases[0].axes[2]):
        lines = [(line.get_color(), line.get_linestyle()) for line in axis.get_lines()]
        assert len(lines) == len(set(lines)) > 8
    assert curves.draw_curves(sample.many(41), sample.results(sample.many(41)), tmp_path / "it") is None


def test_costs_are_those_measured_and_of_one_kind_of_device():
    noted = replace(sample.noted("c0s0", ()), wall_seconds=9.0, threads=4, processes=2, training_cpu_seconds=5.0)
    on_gpu = replace(noted, gpu_seconds=9.0, training_gpu_seconds=7.0)
    measured = [cost and (str(cost.device), cost.seconds) for cost in map(cell_cost, (noted, on_gpu))]
    assert measured == [("CPU-seconds of training", 5.0), ("GPU-seconds of training", 7.0)]
    assert cell_cost(replace(noted, training_cpu_seconds=None)) is None  # a cell of older code
    assert cell_cost(replace(on_gpu, training_gpu_seconds=None)) is None
    results = sample.results(sample.recipes())
    put(results.provenance("c1s0"), gpu_seconds=3.0)
    put(results.provenance("c2s0"), training_cpu_seconds=None)
    rows = results.study.sections[0].rows
    assert [row_cost(row.cells, results) is not None for row in rows] == [True, False, False]


IDS = np.arange(50, dtype=np.uint64)
PLACES = np.random.default_rng(0).normal(size=(50, 2)) * [3, 1]


def test_a_picture_that_was_turned_mirrored_and_moved_lies_on_the_first_and_its_texts_are_found_by_their_ids():
    def picture(x: np.ndarray, ids: np.ndarray) -> Picture:
        return Picture(x, np.zeros(len(ids), int), ids)

    for mirror in (1, -1):
        turn = np.array([[0.6, -0.8], [0.8, 0.6]]) @ np.diag([1, mirror])
        other = picture((PLACES @ turn + [7, -4]).astype(np.float32), IDS)
        np.testing.assert_allclose(embeddings.aligned(other, picture(PLACES, IDS)), PLACES - PLACES.mean(0), atol=1e-5)
    order = np.random.default_rng(1).permutation(50)
    larger = picture(5 * PLACES[order] @ np.array([[0.0, 1], [1, 0]]), IDS[order])
    found = embeddings.aligned(larger, picture(PLACES, IDS))
    np.testing.assert_allclose(found, 5 * (PLACES - PLACES.mean(0))[order], atol=1e-12)  # distances stay
    others = picture(PLACES[::-1], IDS + np.uint64(50))  # by which nothing can be turned
    assert (embeddings.aligned(picture(PLACES, IDS), others) == PLACES).all()


def test_a_name_longer_than_a_line_is_cut_and_not_dropped():
    assert wrapped("Int6_MLP3x_SmearGate_BigramHash against another", 20, 1) == "Int6_MLP3x_SmearGat…"
    assert wrapped("of Int6_MLP3x_SmearGate_BigramHash", 12) == "of Int6_MLP3\nx_SmearGate…"
    assert wrapped("short words stay as they were", 12, 1) == "short …" and wrapped("", 12) == ""


def test_images_are_drawn_with_their_neighbours_and_a_frame_around_those_of_another_class(tmp_path: Path):
    section = without(sample.recipes(), "curves")
    results = sample.results(section)
    near = np.full((2, 4, 1, 8, 8), 99, np.uint8)
    labels = np.array([[0, 0, 1, 0], [1, 1, 1, 1]])  # one of six neighbours is of another class
    with_images = {cell: replace(picture, near=near, near_labels=labels) for cell, picture in results.tsne.items()}
    found = figures.draw(compare(section, results), replace(results, tsne=with_images), tmp_path, "it")
    (figure,) = (each for each in found if each.path.endswith("neighbours.png"))
    assert "ce 83; rdrop 83; ce+supcon 83" in str(figure.caption) and (tmp_path / figure.path).exists()
    strip = images.strip(near, labels)
    assert (strip[-1, :, 2] != 255).sum() == 10  # the width of one framed image


def test_images_lie_on_the_points_of_their_ids_and_none_covers_another():
    """Whatever the order of the points; two of three are too near to each other, and the third has no image."""
    drawn = Canvas(figsize=(4, 4))
    axis = drawn.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, 1), ylim=(0, 1))
    ids, tiles = np.array([7, 5, 9], np.uint64), np.zeros((3, 1, 8, 8), np.uint8)
    places = np.array([[0.5, 0.25], [0.505, 0.25], [0.9, 0.9]])
    picture = Picture(places, np.array([0, 1, 2]), ids, images=tiles, image_ids=np.array([3, 5, 7], np.uint64))
    images.draw_images(axis, picture, places)
    (tile,) = axis.artists
    assert tile.xy == pytest.approx((0.505, 0.25))
    edge = tile.offsetbox.get_data()[0, 0] / 255
    assert edge == pytest.approx(to_rgb(COLOURS[1]), abs=0.01)  # of its class
