"""A panel of seconds whose texts are easy, but not alike for all seeds, a copy of the code, and a harmful change."""

import random
import shutil
import subprocess
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).parents[2]

WORDS = {"good": ["fine", "nice", "great", "lovely"], "bad": ["ugly", "poor", "awful", "mean"]}
SETTINGS = {
    "window": 3,
    "quality": {"test.accuracy": 0.01, "test.macro_f1": 0.01},
    "speed": 9,  # a busy machine is none of these tests
}
HARMED = Path("contrastive/evaluation/metrics/classification.py")


def panel(folder: Path) -> Path:
    draw = random.Random(0)
    every = [word for words in WORDS.values() for word in words]
    rows = [
        f"{' '.join(draw.choices(WORDS[label] * 3 + every, k=5))} {number},{label}"
        for number in range(60)
        for label in WORDS
    ]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    content = {
        "name": "tiny",
        "data": {"source": f"file:{folder / 'texts.csv'}", "train": 64, "test": 40, "max_length": 8},
        "encoder": {
            "model": "scratch:bert",
            "pooling": "mean",
            "scratch": {"layers": 1, "hidden": 16, "heads": 2, "vocabulary": 100},
        },
        "training": {"epochs": 6, "batch_size": 16, "head_lr": 1e-2, "encoder_lr": 1e-2},
        "seeds": [0, 1, 2, 3, 4],
        "evaluation": {"metrics": ["accuracy", "macro_f1"], "picture_points": 10},
        "sections": [{"title": "Panel", "rows": {"ce": {}}}],
    }
    (folder / "tiny.yaml").write_text(yaml.safe_dump(content))
    return folder / "tiny.yaml"


def copy_of_the_code(folder: Path) -> Path:
    """A clone with what is not committed yet, so that it can be changed and committed to."""
    code = folder / "code"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(CHECKOUT), str(code)], check=True)
    for part in ("contrastive", "flows", "tasks", "reports"):
        shutil.rmtree(code / part)
        subprocess.run(["cp", "-r", "--", str(CHECKOUT / part), str(code)], check=True)
    return code


def harm(code: Path) -> None:
    """A third of the predictions of the measured head are wrong."""
    path = code / HARMED
    text = path.read_text()
    path.write_text(text.replace("inputs.predictions == inputs.labels", "wrong(inputs)") + WRONG)
    assert "wrong(inputs)" in path.read_text().partition("def wrong")[0], text


WRONG = """

def wrong(inputs):
    import numpy as np
    return (inputs.predictions == inputs.labels) & (np.arange(len(inputs.labels)) % 3 > 0)
"""
