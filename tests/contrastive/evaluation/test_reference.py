"""The reference row: TF-IDF with logistic regression learns words of both scripts, once for prepared data."""

import json

import pytest
from sklearn.linear_model import LogisticRegression

from contrastive.config.cell import Data, Encoder, Images
from contrastive.data import load_splits
from contrastive.data.images import values_of
from contrastive.data.tokens import prepare_tokens
from contrastive.evaluation import reference

ENGLISH = (
    ["a fine film", "what a joy", "simply lovely", "great fun"],
    ["a dull film", "what a bore", "simply awful", "no fun"],
)
CHINESE = (["房间很干净", "服务很好", "早餐丰富", "位置方便"], ["房间很脏", "服务太差", "早餐难吃", "位置偏僻"])


def prepared(folder, good_bad, *, repeat: int = 6, validation: bool = True):
    """Texts of prepared data: each split holds the same phrases with another number behind."""
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text("{}")
    for offset, split in enumerate(("train", "validation", "test")):
        kept = split != "validation" or validation
        rows = [
            {"text": f"{phrase} {3 * number + offset}", "label": label}
            for number in range(repeat if kept else 0)
            for label, phrases in enumerate(good_bad)
            for phrase in phrases
        ]
        write(folder, split, rows)
    return folder


def write(folder, split: str, rows) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / f"texts.{split}.jsonl").write_text(lines, encoding="utf-8")


def test_chinese_words_are_recognised_in_other_sentences(tmp_path):
    folder = prepared(tmp_path / "abc", CHINESE)
    held_out = [("真干净", 0), ("真丰富", 0), ("真方便", 0), ("真难吃", 1), ("真偏僻", 1), ("真脏啊", 1)]
    write(folder, "test", [{"text": text, "label": label} for text, label in held_out])
    assert reference.reference_scores(folder)["test.accuracy"] == 1.0


def test_an_empty_split_has_no_score(tmp_path):
    scores = reference.reference_scores(prepared(tmp_path / "abc", ENGLISH, validation=False))
    assert set(scores) == {"test.accuracy", "test.macro_f1"}


def test_it_is_computed_once_for_prepared_data(tmp_path):
    folder = prepared(tmp_path / "tokens" / "abc", ENGLISH)
    first = reference.tfidf(folder, tmp_path)
    path = reference.reference_folder(folder, tmp_path)
    assert path.is_relative_to(tmp_path / "cache" / "references") and reference.known_scores(folder, tmp_path) == first
    for split in ("train", "validation", "test"):
        (folder / f"texts.{split}.jsonl").unlink()
    assert reference.tfidf(folder, tmp_path) == first


def test_without_anything_to_count_there_is_no_reference(tmp_path):
    folder = prepared(tmp_path / "tokens" / "abc", ENGLISH)
    for split in ("train", "validation", "test"):
        write(folder, split, [{"text": chr(0x2600 + i), "label": i % 2} for i in range(20)])  # no word, none twice
    assert reference.tfidf(folder, tmp_path) == []


def test_images_are_referred_to_by_their_raw_values_measured_as_vectors_are(tmp_path):
    data = Data(source="package:digits", images=Images(size=8, channels=1), train=400, test=300)
    prepared_images = prepare_tokens(data, Encoder(model="scratch:vit"), tmp_path)
    (found,) = reference.tfidf(prepared_images, tmp_path)
    assert found["name"] == "Raw pixels + logistic regression"
    splits = load_splits(data)
    train, test = (values_of(split.texts, data.images) / 255 for split in (splits.train, splits.test))
    expected = LogisticRegression(max_iter=1000).fit(train, splits.train.labels).score(test, splits.test.labels)
    assert found["scores"]["test.accuracy"] == pytest.approx(expected, abs=0.005)
    assert found["scores"]["test.knn_accuracy"] > 0.85 and found["scores"]["test.logistic_accuracy"] > 0.85
