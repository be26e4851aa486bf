"""How many rows of each data set were kept and dropped, as preparing the tokens counted them. Made for a grid."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from contrastive.config.cell import Cell, Data
from contrastive.config.evaluation import Transfer
from contrastive.data import tokens, transfer_data
from contrastive.errors import UserError
from contrastive.runs import store


def sifted(names: dict[Data, str], cells: Iterable[Cell], transfers: Iterable[Transfer]) -> list[dict[str, Any]]:
    """Of each data set its name, whether it is further data, and its counts, as far as its tokens are there."""
    first: dict[str, Cell] = {}
    for cell in cells:
        first.setdefault(names[cell.data], cell)  # of whatever length: the texts are the same
    own = {name: tokens.digest(cell.data, cell.encoder) for name, cell in first.items()}
    found = [{"name": name, "transfer": False, **counts} for name, digest in own.items() for counts in counted(digest)]
    for transfer in transfers:
        known = [counts for digest in own.values() for counts in of_transfer(transfer, digest)]
        found += [{"name": transfer.name, "transfer": True, **counts} for counts in known[:1]]
    return found


def of_transfer(transfer: Transfer, own: str) -> Iterator[dict[str, Any]]:
    try:
        yield from counted(transfer_data.digest(transfer, own))
    except UserError:  # its file is gone; what was measured on it stays
        return


def counted(digest: str) -> Iterator[dict[str, Any]]:
    folder: Path = store.home() / "cache" / "tokens" / digest
    if store.finished(folder):
        meta = store.read_json(folder / "meta.json")
        yield {name: meta[name] for name in ("sifted", "wordless", "merged")}
