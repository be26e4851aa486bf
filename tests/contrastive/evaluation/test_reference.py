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


def test_a_line_break_of_unicode_inside_a_text_stays_inside(tmp_path):
    (tmp_path / "texts.test.jsonl").write_text('{"text": "one\u2028two\u0085three", "label": 1}\n', encoding="utf-8")
    assert reference.read_texts(tmp_path, "test") == (["one\u2028two\u0085three"], [1])


def test_texts_of_one_character_are_words(tmp_path):
    phrases = [chr(0x4E00 + i) for i in range(40)], [chr(0x5E00 + i) for i in range(40)]
    folder = prepared(tmp_path / "abc", phrases, repeat=1)
    for split in ("train", "validation", "test"):
        write(folder, split, [{"text": text, "label": label} for label in (0, 1) for text in phrases[label]])
    assert reference.reference_scores(folder)["test.accuracy"] == 1.0


def test_without_anything_to_count_there_is_no_reference(tmp_path):
    folder = prepared(tmp_path / "tokens" / "abc", ENGLISH)
    for split in ("train", "validation", "test"):
        write(folder, split, [{"text": chr(0x2600 + i), "label": i % 2} for i in range(20)])  # no word, none twice
    assert reference.tfidf(folder, tmp_path) == []


HARMS = {
    "garbage": lambda path: path.write_bytes(b"\xff\x00" * 40),
    "another number": lambda path: path.write_text(path.read_text().replace("1.0", "0.5")),
    "a folder": lambda path: (path.unlink(), (path / "something").mkdir(parents=True)),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_one_is_computed_again_with_the_same_numbers(harm, tmp_path):
    folder = prepared(tmp_path / "tokens" / "abc", ENGLISH)
    first = reference.tfidf(folder, tmp_path)
    for path in [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]:
        HARMS[harm](path)
    assert reference.known_scores(folder, tmp_path) == []
    assert reference.tfidf(folder, tmp_path) == first


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
