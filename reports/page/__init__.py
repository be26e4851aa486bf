"""The report as one page that needs no network: sortable tables, figures, links into MLflow."""

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from contrastive.errors import printable
from reports.figures import Figure, LeftOut
from reports.load import Results
from reports.messages import PAGES, Joined, Message, Said, _, language, n_, other
from reports.report import Report

HERE = Path(__file__).parent
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Image:
    """A figure as an address that holds it."""

    address: str
    alt: Said


def write_page(report: Report, results: Results, folder: Path) -> Path:
    """The page in the language in use beside the figures, which it holds too; the same bytes from the same results."""
    path = folder / PAGES[language()]
    path.write_text(render_page(report, results, folder), encoding="utf-8", errors="replace")
    return path


def render_page(report: Report, results: Results, folder: Path) -> str:
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return template().render(
        _=_,
        n_=n_,
        language=language(),
        other=other(PAGES),
        report=report,
        running=results.progress is not None,
        images=lambda figures: [Image(address(folder / each.path), each.alt) for each in figures if is_drawn(each)],
        left_out=lambda figures: [each for each in figures if not is_drawn(each)],
        link=Links(results).to,
        style=Markup(style),
        script=Markup(script),
        digests={"style": digest(style), "script": digest(script)},
    )


def template() -> Template:
    settings: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    templates = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, autoescape=True, finalize=seen, **settings
    )
    return templates.get_template("page.html.j2")


def is_drawn(figure: Figure | LeftOut) -> TypeGuard[Figure]:
    return isinstance(figure, Figure)


def address(path: Path) -> str:
    return f"data:{TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def digest(text: str) -> str:
    """By which the page's policy knows its own script and style, and runs no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def seen(value: object) -> object:
    """A text as the page shows it: of what is not our own markup, nothing that stays unseen or turns text around."""
    said = isinstance(value, str | Message | Joined) and not isinstance(value, Markup)
    return printable(str(value)) if said else value


USUAL = "http://127.0.0.1:5000"  # where `ablate up` serves them


class Links:
    def __init__(self, results: Results) -> None:
        self.base, self.experiment = base(results.uri), results.experiment_id
        self.runs = {cell: run.run_id for cell, run in results.cells.items()}

    def to(self, cells: list[str]) -> str | None:
        """One run's page, or several side by side; None where MLflow knows none of the cells."""
        runs = list(dict.fromkeys(self.runs[cell] for cell in cells if cell in self.runs))
        if not runs:
            return None
        if len(runs) == 1:
            return f"{self.base}/#/experiments/{quote(self.experiment, safe='')}/runs/{quote(runs[0], safe='')}"
        chosen = quote(json.dumps(runs, separators=(",", ":")), safe="")
        return f"{self.base}/#/compare-runs?runs={chosen}&experiments={quote(json.dumps([self.experiment]), safe='')}"


def base(uri: str) -> str:
    """The server that was asked, without the password that it was asked with; else the one of `ablate up`."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return USUAL
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
