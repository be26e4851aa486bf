"""A cell of every setting, and another value for each, under settings with which it matters."""

from contrastive.config.cell import Cell


def make(source: str, seed: int = 0, **changes: object) -> Cell:
    """A cell in which, but for `changes`, every setting of the parts is spelled out or at its default."""
    parts: dict[str, dict[str, object]] = {
        "data": {"source": source, "test": 10},
        "encoder": {"model": "scratch:bert"},
        "objective": {"loss": "ce+supcon"},
        "training": {},
    }
    for dotted, value in changes.items():
        part, name = dotted.split("__")
        parts[part][name] = value
    return Cell(**parts, seed=seed).canonical()


THERE_AND_BACK = ("hf:owner/en-de@" + "0" * 40, "hf:owner/de-en@" + "1" * 40)
SAME = (THERE_AND_BACK[0], THERE_AND_BACK[0])
LAST, LORA = {"encoder__tune": {"last_blocks": 1}}, {"encoder__tune": {"lora": {}}}
LAYERS = {"objective__view": "layers", "objective__layers": [0]}
TRANSLATED = {"objective__view": "backtranslation", "objective__translators": THERE_AND_BACK}
GUIDES = ("hf:owner/guide@" + "0" * 40, "hf:owner/guide@" + "1" * 40)
OF_PAIRS = {"data__positive": "text", "objective__view": "pair", "objective__guide": GUIDES[0]}
GUIDED = OF_PAIRS | {"objective__loss": "gist"}
# field → another value, where it matters under any settings
PLAIN: dict[str, object] = {"data.text": "label", "data.label": "text", "data.positive": "text", "data.train": 20}
PLAIN |= {"data.validation": 5, "data.test": 11, "data.max_length": 64}
PLAIN |= {"encoder.model": "scratch:deberta-v2", "encoder.tune": {"last_blocks": 1}, "encoder.pooling": "mean"}
PLAIN |= {"encoder.dropout": 0.2, "encoder.attention_dropout": 0.0, "encoder.scratch": {"layers": 1}}
PLAIN |= {"encoder.prompt": "query: "}
PLAIN |= {"objective.loss": "supcon", "objective.view": "one_stage", "objective.alpha": 0.5}
PLAIN |= {"objective.temperature": 0.07, "objective.chunk": 64}
PLAIN |= {"training.micro_batch": 4, "training.epochs": 4, "training.batch_size": 8, "training.accumulate": 2}
PLAIN |= {"training.head_lr": 1e-3, "training.encoder_lr": 1e-3, "training.layer_decay": 0.9}
PLAIN |= {"training.weight_decay": 0.1, "training.warmup": 0.2, "training.schedule": "cosine", "training.clip": 0}
PLAIN |= {"training.precision": "bf16", "training.bucket": 1}
PLAIN |= {"training.order_seed": 0, "training.threads": 2, "training.processes": 2, "training.sharding": "fsdp"}
PLAIN |= {"seed": 1}
PICTURES = {"data__source": "package:digits", "data__images": {"size": 8}, "encoder__model": "scratch:vit"}
CHANGED = PICTURES | {"training__augment": {"flip": True}}
CHANGES = {"crop": (0.5, 1.0), "flip": True, "shift": 0.1, "rotate": 5.0, "color": 0.5, "gray": 0.1, "blur": 1.0}
# field → (settings under which it matters, another value)
MUTATIONS: dict[str, tuple[dict[str, object], object]] = {
    **{field: ({}, value) for field, value in PLAIN.items()},
    "data.images": (PICTURES, {"size": 12}),
    "data.images.size": (PICTURES, {"size": 12}),
    "data.images.channels": (PICTURES, {"size": 8, "channels": 1}),
    "training.augment": (PICTURES, {"flip": True}),
    **{f"training.augment.{name}": (CHANGED, {"rotate": 1.0, name: value}) for name, value in CHANGES.items()},
    "training.augment.erase": (CHANGED, {"rotate": 1.0, "erase": 0.1}),
    "encoder.scratch.patch": (PICTURES, {"patch": 2}),
    "data.negative": ({"data__positive": "text"}, "label"),
    "data.resample": ({"data__train": 20}, True),
    "encoder.tune.last_blocks": (LAST, {"last_blocks": 2}),
    "encoder.tune.frozen_dropout": (LAST, {"last_blocks": 1, "frozen_dropout": False}),
    "encoder.tune.lora": (LAST, {"lora": {}}),
    "encoder.tune.lora.r": (LORA, {"lora": {"r": 4}}),
    "encoder.tune.lora.alpha": (LORA, {"lora": {"alpha": 32}}),
    "encoder.tune.lora.dropout": (LORA, {"lora": {"dropout": 0.1}}),
    "encoder.tune.lora.targets": (LORA, {"lora": {"targets": ["query"]}}),
    "encoder.tune.lora.dora": (LORA, {"lora": {"dora": True}}),
    "encoder.tune.lora.rslora": (LORA, {"lora": {"rslora": True}}),
    "encoder.attention": ({"encoder__model": "hf:owner/decoder@" + "0" * 40}, "bidirectional"),
    "encoder.scratch.layers": ({"encoder__scratch": {}}, {"layers": 1}),
    "encoder.scratch.hidden": ({"encoder__scratch": {}}, {"hidden": 32}),
    "encoder.scratch.heads": ({"encoder__scratch": {}}, {"heads": 4}),
    "encoder.scratch.vocabulary": ({"encoder__scratch": {}}, {"vocabulary": 500}),
    "objective.mlm_weight": ({"objective__loss": "ce+mlm"}, 1.0),
    "objective.beta": ({"objective__loss": "ce+dscl"}, 2.0),
    "objective.sigma": ({"objective__loss": "ce+dclw"}, 2.0),
    "objective.rate": ({"objective__loss": "clear"}, 0.4),
    "objective.change": ({"objective__loss": "simcse", "objective__view": "consert"}, "dropout"),
    "objective.queue": ({"objective__loss": "moco"}, 8),
    "objective.decay": ({"objective__loss": "byol"}, 0.9),
    "objective.projector": ({"objective__loss": "byol"}, 8),
    "objective.projection": ({"objective__loss": "byol"}, 8),
    "objective.prototypes": ({"objective__loss": "swav"}, 8),
    "objective.redundancy": ({"objective__loss": "barlow"}, 0.1),
    "objective.crops": (CHANGED | {"objective__loss": "swav", "objective__view": "multicrop"}, 2),
    "objective.area": (CHANGED | {"objective__loss": "swav", "objective__view": "multicrop"}, (0.1, 0.2)),
    "objective.k": ({"objective__view": "topk_tokens"}, 5),
    "objective.clusters": ({"objective__view": "cluster"}, 3),
    "objective.layers": (LAYERS, [1]),
    "objective.level": (LAYERS, "token"),
    "objective.middle": ({"objective__view": "multiview"}, 1),
    "objective.matryoshka": ({"objective__loss": "simcse"}, [4]),
    "objective.translators": (TRANSLATED, SAME),
    "objective.guide": (GUIDED, GUIDES[1]),
    "objective.guide_margin": (GUIDED, 0.1),
    "objective.guide_margin_strategy": (GUIDED | {"objective__guide_margin": 0.1}, "relative"),
    "objective.mine": (GUIDED, True),
}


def mutated(source: str, field: str, **base: object) -> tuple[Cell, Cell]:
    settings, value = MUTATIONS[field]
    key = "seed" if field == "seed" else "__".join(field.split(".")[:2])
    return make(source, **base | settings), make(source, **base | settings | {key: value})
