"""`results.md`: what the machine is, then a section a benchmark, each with the command that gives it.

Sections of an earlier run stay where machine and versions are the same; numbers of two machines never stand together.
"""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from contrastive.runs.provenance import processor

FILE = Path(__file__).with_name("results.md")
PACKAGES = (
    "torch", "transformers", "accelerate", "sentence-transformers", "datasets", "ray", "hydra-core",
    "hydra-joblib-launcher", "prefect", "mlflow",
)  # fmt: skip
SECTION = "\n## "


@dataclass(frozen=True)
class Section:
    title: str
    when: str
    command: str
    text: str

    def markdown(self) -> str:
        return f"{self.title}\n\n`{self.command}`, {self.when}\n\n{self.text.strip()}\n"


def write(sections: list[Section], file: Path = FILE, top: str | None = None) -> None:
    """These sections, in the place of earlier ones of the same titles."""
    top = header() if top is None else top
    before, *earlier = file.read_text(encoding="utf-8").split(SECTION) if file.exists() else [top]
    kept = {part.split("\n")[0]: part for part in earlier} if before.strip() == top.strip() else {}
    kept |= {section.title: section.markdown() for section in sections}
    file.write_text(top.strip() + "\n" + "".join(SECTION + part for part in kept.values()), encoding="utf-8")


def header() -> str:
    installed = {package: found for package in PACKAGES if (found := version_of(package))}
    cores = len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{processor()}, {cores} cores, {gib:.0f} GiB, {device()}; {platform.system()}"
    versions = ", ".join(f"{package} {found}" for package, found in installed.items())
    return (
        "# Speed, side by side\n\n"
        "Written by `make bench`; what each section measures, and what is fair about it: docs/reference/speed.md.\n"
        "Medians, with the smallest and the largest of the turns in brackets; the systems of a section take turns in\n"
        "one run.\n\n"
        f"{machine}. Python {platform.python_version()}, {versions}.\n"
    )


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
