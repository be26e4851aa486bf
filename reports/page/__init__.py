"""The report as one page that needs no network: sortable tables, pictures with their texts, links into MLflow."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from contrastive.errors import printable
from reports.figures import PLACES, Figure
from reports.figures.left_out import LeftOut, drawn_or_left_out
from reports.load import Results
from reports.messages import PAGES, Joined, Message, Said, _, language, other
from reports.page import points
from reports.page.links import Links
from reports.report import Report
from reports.section_report import SectionReport

HERE = Path(__file__).parent
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Image:
    """A figure as an address that holds it."""

    address: str
    alt: Said


@dataclass(frozen=True)
class Drawn:
    """What the page draws in a section: points that answer to the pointer, figures, and why others are not there."""

    picture: points.Panels | None
    images: list[Image]
    left_out: list[LeftOut]


def write_page(report: Report, results: Results, folder: Path) -> Path:
    """The page in the language in use beside the figures, which it holds too; the same bytes from the same results."""
    path = folder / PAGES[language()]
    path.write_text(render_page(report, results, folder), encoding="utf-8", errors="replace")
    return path


def render_page(report: Report, results: Results, folder: Path) -> str:
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    attempted = [
        drawn_or_left_out(PLACES, partial(points.section_points, section.recorded, results))
        for section in report.sections
    ]
    pictures = [None if isinstance(picture, LeftOut) else picture for picture in attempted]
    shown = points.texts(pictures, results)
    drawn = [section_pictures(section, one, folder) for section, one in zip(report.sections, attempted, strict=True)]
    return template().render(
        _=_,
        language=language(),
        other=other(PAGES),
        report=report,
        running=results.progress is not None,
        sections=list(zip(report.sections, drawn, strict=True)),
        whole=images(report.overview, folder, False),
        link=Links(results).to,
        style=Markup(style),
        script=Markup(script),
        digests={"style": digest(style), "script": digest(script)},
        data=Markup(inside_script({"texts": list(shown.values()), "pictures": points.arrays(pictures, shown)})),
    )


def template() -> Template:
    settings: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    templates = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, autoescape=True, finalize=seen, **settings
    )
    return templates.get_template("page.html.j2")


def section_pictures(section: SectionReport, picture: points.Panels | LeftOut | None, folder: Path) -> Drawn:
    live = None if isinstance(picture, LeftOut) else picture
    left_out = [figure for figure in (*section.figures, picture) if isinstance(figure, LeftOut)]
    return Drawn(live, images(section.figures, folder, live is not None), left_out)


def images(figures: Sequence[Figure | LeftOut], folder: Path, live: bool) -> list[Image]:
    """A grid of pictures is left to the one that answers to the pointer."""
    drawn = [figure for figure in figures if not isinstance(figure, LeftOut)]
    kept = [figure for figure in drawn if not (live and figure.path.endswith("-tsne.png"))]
    return [Image(address(folder / figure.path), figure.alt) for figure in kept]


def address(path: Path) -> str:
    return f"data:{TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def digest(text: str) -> str:
    """By which the page's policy knows its own script and style, and runs no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def inside_script(document: Any) -> str:
    """JSON that no text can break out of."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def seen(value: object) -> object:
    """A text as the page shows it: of what is not our own markup, nothing that stays unseen or turns text around."""
    said = isinstance(value, str | Message | Joined) and not isinstance(value, Markup)
    return printable(str(value)) if said else value
