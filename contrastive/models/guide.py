"""Vectors of the training texts by a guide (`objective.guide`), and the hard negatives that it finds.

They are computed once for each (texts, guide), memory-mapped, and read by all cells. Rows are unit vectors: their
products are cosines.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.format import open_memmap
from torch import nn

from contrastive.config.cell import Cell, Encoder
from contrastive.data import locate
from contrastive.data import tokens as token_store
from contrastive.data.tokens import Tokens, TokenSplit
from contrastive.errors import UserError, brief
from contrastive.grid.frozen_readers import guide_folder
from contrastive.models import encoder as encoders
from contrastive.runs import fingerprint, store
from contrastive.views.batches import by_length, collate

ROWS = 1024  # texts compared with all others at a time


def with_guide(tokens: Tokens, cell: Cell) -> Tokens:
    """Return the tokens with what the guide says of the training texts, if the cell has a guide."""
    if cell.objective.guide is None:
        return tokens
    folder, train = make_guide(tokens, cell), tokens.splits["train"]
    paths = (folder / f"partner{number}.npy" for number in range(len(train.partners)))
    partners = tuple(replace(partner, guide=_mapped(path)) for partner, path in zip(train.partners, paths, strict=True))
    mined = None
    if cell.objective.mine:
        code = fingerprint.code_digest(("contrastive.models.guide",))
        wanted = {name: getattr(cell.objective, name) for name in ("guide_margin", "guide_margin_strategy")}
        key = fingerprint.key("mined", guide=folder.name, **wanted, code=code)
        mining = store.make_once(
            store.cache_folder("guides", key), lambda unfinished: _mine(train, folder, cell, unfinished)
        )
        mined = _mapped(mining / "mined.npy")
    train = replace(train, guide=_mapped(folder / "texts.npy"), partners=partners, mined=mined)
    return replace(tokens, splits=tokens.splits | {"train": train})


def _mapped(path: Path) -> np.ndarray:
    return np.load(path, mmap_mode="r")


def make_guide(tokens: Tokens, cell: Cell) -> Path:
    """Return the folder with the guide's vectors of the training texts and their partners; make it unless it exists."""
    make = _read_vectors if str(cell.objective.guide).endswith(locate.VECTORS) else _encode
    folder = guide_folder(cell, tokens.folder.name)
    return store.make_once(folder, lambda unfinished: make(tokens.splits["train"], cell, unfinished))


def _parts(train: TokenSplit) -> dict[str, TokenSplit]:
    return {"texts": train} | {f"partner{number}": partner for number, partner in enumerate(train.partners)}


def _encode(train: TokenSplit, cell: Cell, folder: Path) -> None:
    """Encode the texts with a frozen model, in float32 and without dropout; a vector is the mean of its tokens."""
    model = str(cell.objective.guide)
    locate.model_folder(model)  # fetches that of a hub
    longest = min(cell.data.max_length, locate.most_tokens(model) or cell.data.max_length)
    data, encoder = cell.data.model_copy(update={"max_length": longest}), Encoder(model=model, pooling="mean")
    prepared = token_store.prepare_tokens(data, encoder, store.home(), cell.train_sample_seed())
    own = token_store.open_tokens(prepared)
    torch.set_num_threads(1)  # the same for all cells that share them
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backbone = encoders.load_encoder(encoder, own.vocab_size, own.pad_id).to(device).eval()
    size = locate.shape(encoder)[1]
    for name, texts in _parts(own.splits["train"]).items():
        assert np.array_equal(texts.digests, _parts(train)[name].digests), "the guide's tokens are of other texts"
        vectors = open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=(len(texts), size))
        for rows in by_length(texts.lengths):
            batch = collate(texts, rows, own.pad_id, own.special_ids).to(device)
            with torch.no_grad():
                pooled = encoders.encode(backbone, batch, encoder.pooling, nn.Identity()).pooled()
            vectors[rows] = nn.functional.normalize(pooled, dim=-1).cpu().numpy()
        vectors.flush()


def _read_vectors(train: TokenSplit, cell: Cell, folder: Path) -> None:
    """Look the texts up in a file that `ablate embed` wrote, or another with the columns `text` and `embedding`."""
    import pyarrow
    import pyarrow.parquet

    path = locate.vectors_file(str(cell.objective.guide))
    try:
        table = pyarrow.parquet.read_table(path, columns=["text", "embedding"])
        rows = np.stack(table["embedding"].to_pylist()).astype(np.float32)
        if rows.ndim != 2:
            raise ValueError("vectors are lists of numbers")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        numbers = [token_store.text_number(text) for text in table["text"].to_pylist()]
    except (AttributeError, OSError, ValueError, TypeError, pyarrow.ArrowException) as error:
        raise UserError(
            f"guide: {path} needs the columns `text`, a text in each row, and `embedding`, vectors of one size "
            f"({brief(error)})"
        ) from None
    if not (np.isfinite(lengths).all() and lengths.all()):
        raise UserError(f"guide: {path} has vectors of zeros, or with numbers that are not finite: correct them")
    line_of = dict(zip(numbers, range(len(rows)), strict=True))
    if not np.array_equal(rows, rows[[line_of[number] for number in numbers]]):
        raise UserError(f"guide: {path} has several vectors for one text: give it one")
    units = rows / lengths
    for name, texts in _parts(train).items():
        if missing := sum(int(number) not in line_of for number in texts.digests):
            raise UserError(
                f"guide: {path} lacks {missing} of {len(texts)} training texts or partners: give it a row for each, "
                "with the same text"
            )
        np.save(folder / f"{name}.npy", units[[line_of[int(number)] for number in texts.digests]])


def _mine(train: TokenSplit, guide: Path, cell: Cell, folder: Path) -> None:
    """Find for each text the positive of another one that the guide finds closest, among those that are less similar
    than its own positive, less the margin. Where none is, take the least similar one."""
    texts, positives = _mapped(guide / "texts.npy"), _mapped(guide / "partner0.npy")
    margin = cell.objective.guide_margin
    mined: list[npt.NDArray[np.int64]] = []
    for begin in range(0, len(texts), ROWS):
        rows = slice(begin, begin + ROWS)
        similarity = texts[rows] @ positives.T
        agreed = (texts[rows] * positives[rows]).sum(1, keepdims=True)
        slack = margin * np.abs(agreed) if cell.objective.guide_margin_strategy == "relative" else margin
        text, own = (split.digests[rows, None] for split in (train, train.partners[0]))
        same = (train.partners[0].digests == text) | (train.partners[0].digests == own)
        close = np.where(same | (similarity >= agreed - slack), -np.inf, similarity)
        farthest = np.where(same, np.inf, similarity).argmin(1)
        mined.append(np.where(np.isfinite(close).any(1), close.argmax(1), farthest))
    np.save(folder / "mined.npy", np.concatenate(mined).astype(np.int64))
