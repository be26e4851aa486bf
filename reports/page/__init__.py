"""The report as one page that needs no network: sortable tables, pictures with their texts, links into MLflow."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from contrastive.errors import printable
from reports.bilingual import Words
from reports.figures import PLACES
from reports.figures.left_out import LeftOut, attempt
from reports.load import Results
from reports.page import points
from reports.page.links import Links

HERE = Path(__file__).parent
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


def write(
    results: Results,
    sections: list[dict[str, Any]],
    folder: Path,
    general: Sequence[Words] = (),
    reading: Sequence[Words] = (),
    footer: Sequence[Words] = (),
) -> Path:
    """index.html beside the figures, which it holds too; the same bytes from the same results."""
    path = folder / "index.html"
    path.write_text(render(results, sections, folder, general, reading, footer), encoding="utf-8", errors="replace")
    return path


def render(
    results: Results,
    sections: list[dict[str, Any]],
    folder: Path,
    general: Sequence[Words] = (),
    reading: Sequence[Words] = (),
    footer: Sequence[Words] = (),
) -> str:
    templates = Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
        finalize=seen,
    )
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    attempted = [attempt(PLACES, partial(points.of_section, section.get("rows", []), results)) for section in sections]
    pictures = [None if isinstance(picture, LeftOut) else picture for picture in attempted]
    shown = points.texts(pictures, results)
    return templates.get_template("page.html.j2").render(
        experiment=results.grid["experiment"],
        general=general,
        reading=reading,
        footer=footer,
        sections=[
            section
            | {"picture": picture, "images": images(section["figures"], folder, picture is not None)}
            | {"left_out": [one for one in (*section["figures"], other) if isinstance(one, LeftOut)]}
            for section, picture, other in zip(sections, pictures, attempted, strict=True)
        ],
        link=Links(results).to,
        style=Markup(style),
        script=Markup(script),
        digests={"style": digest(style), "script": digest(script)},
        data=Markup(inside_script({"texts": list(shown.values()), "pictures": points.drawn(pictures, shown)})),
    )


def images(figures: list[Any], folder: Path, live: bool) -> list[dict[str, Any]]:
    """The figures as addresses that hold them; a grid of pictures is left to the one that answers to the pointer."""
    known = [figure for figure in figures if not isinstance(figure, LeftOut)]
    kept = [figure for figure in known if not (live and figure.path.endswith("-tsne.png"))]
    return [{"address": address(folder / figure.path), "alt": figure.alt} for figure in kept]


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
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
