"""Print the test files that a change can reach: `python -m tests.changed HEAD` for what is not committed.

A change reaches a test file through the imports of the file and of its folders' conftest.py, direct or indirect. What
a test runs as a program or reads as text is listed in `READERS`. `make test` runs the rest.
"""

import subprocess
import sys
from pathlib import Path

import grimp

CHECKOUT = Path(__file__).parents[1]
PACKAGES = ("contrastive", "ablate", "reports", "tasks", "flows", "benchmarks", "tests")
# prefix of a changed path → prefixes of the test files that read or run it without importing it
READERS = {
    "flows/": ("tests/flows", "tests/e2e"),
    "tasks/": ("tests/tasks", "tests/e2e"),
    "ablate/": ("tests/e2e/test_light",),
    "reports/": ("tests/e2e/test_until_decided",),
    "reports/templates/": ("tests/reports", "tests/tasks/test_report"),
    "reports/locale/": ("tests/reports",),
    "reports/output/": ("tests/reports/test_golden", "tests/benchmarks/test_simulation", "tests/test_project"),
    "benchmarks/": ("tests/benchmarks",),
    "configs/": ("tests/contrastive/test_configs", "tests/contrastive/grid", "tests/contrastive/training"),
    "contrastive/losses/__init__.py": ("tests/contrastive/grid",),
    "contrastive/views/__init__.py": ("tests/contrastive/grid",),
    "contrastive/evaluation/metrics/__init__.py": ("tests/contrastive/grid",),
    "docs/": ("tests/test_project",),
    "README.md": ("tests/test_project", "tests/e2e/test_whole_way"),
    "CONTRIBUTING.md": ("tests/test_project", "tests/test_contributing"),
    "Makefile": ("tests/e2e/test_whole_way", "tests/test_project"),
    "prefect.yaml": ("tests/flows", "tests/test_project"),
    "pyproject.toml": ("tests/",),
    "constraints.txt": ("tests/",),
    "tests/conftest.py": ("tests/",),
}


def changed_paths(base: str) -> list[str]:
    """Return the files that differ from `base`, and untracked files that Git does not ignore."""
    commands = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    done = [subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True) for words in commands]
    if done[0].returncode:
        sys.exit(f"tests.changed: {done[0].stderr.strip()}")
    return sorted({line for part in done for line in part.stdout.splitlines()})


def module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def reached_tests(changed: list[str]) -> list[str]:
    """Return the test files that the changed paths can reach."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    tests = [str(path.relative_to(CHECKOUT)) for path in sorted((CHECKOUT / "tests").rglob("test_*.py"))]
    reached: set[str] = set()
    for path in changed:
        readers = tuple(test for begin in READERS if path.startswith(begin) for test in READERS[begin])
        modules = {module(path)} if path.endswith(".py") else set()
        for name in tuple(modules & graph.modules):
            modules |= graph.find_downstream_modules(name)
        by_path = {test for test in tests if test.startswith(readers) or modules & modules_of(test)}
        # no test imports or reads it, so it may be a program that tests run: take the tests of its folder
        reached |= by_path or {test for test in tests if test.startswith(f"tests/{Path(path).parent}/")}
    return sorted(reached)


def modules_of(test: str) -> set[str]:
    """Return a test's module and each conftest.py around it but the outermost, which all tests share."""
    return {module(test)} | {module(f"{folder}/conftest.py") for folder in Path(test).parents if folder.parts[1:]}


if __name__ == "__main__":
    print("\n".join(reached_tests(changed_paths(sys.argv[1]))))
