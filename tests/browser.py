"""Find, install and open a browser for the tests of the report's page."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OWN = {"PLAYWRIGHT_BROWSERS_PATH": "0"}  # beside the package, so that it goes when the environment goes
ASK = """from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    print(playwright.chromium.executable_path)"""
SCREEN = {"width": 1000, "height": 1300}


def find() -> str | None:
    """Return the first browser on the PATH that runs (some only print how to install it), else playwright's own."""
    on_path = (shutil.which(name) for name in NAMES)
    return next((path for path in on_path if path and runs(path)), None) or playwright_browser()


def playwright_browser() -> str | None:
    """Return playwright's browser, if installed; in a separate process, as playwright reads its setting only once."""
    done = subprocess.run([sys.executable, "-c", ASK], env=os.environ | OWN, capture_output=True, text=True)
    path = done.stdout.strip()
    return path if path and runs(path) else None


def runs(path: str) -> bool:
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install() -> None:
    """Install Chromium by apt-get if we are root, else by playwright; exit with instructions if neither works."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-qq", *command], env=environment, **quiet)
    if find() is None:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], env=os.environ | OWN, **quiet)
    if find() is None:
        sys.exit(
            "make: the tests of the report's page need a browser, and none could be installed. Install Chromium or "
            f"Chrome (as root: apt-get install chromium), so that one of {', '.join(NAMES)} is on the PATH."
        )


@contextmanager
def opened(*flags: str) -> Iterator[Browser]:
    """Open a headless browser with these flags."""
    path = find()
    assert path is not None, f"no browser found; install one: {sys.executable} -m tests.browser"
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*sandbox, *flags])
        try:
            yield browser
        finally:
            browser.close()


def photograph(page: Path, picture: Path) -> None:
    """Save a screenshot of the top of a page, in few enough colours for a README."""
    from PIL import Image

    with opened() as browser:
        tab = browser.new_page(viewport=SCREEN, locale="en")
        tab.goto(page.resolve().as_uri())
        tab.screenshot(path=picture)
    Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        photograph(*map(Path, sys.argv[1:]))
    elif find() is None:
        install()
