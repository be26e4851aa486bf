"""How many rows of each data set were kept and dropped, as preparing the tokens counted them. Made for a grid."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from contrastive.config.evaluation import Transfer
from contrastive.data import transfer_data
from contrastive.errors import UserError
from contrastive.runs import cache, store


def sifted(own: Mapping[str, str], transfers: Iterable[Transfer]) -> list[dict[str, Any]]:
    """Of each data set its name, whether it is transfer data, and its counts, as far as its tokens are there; `own` are
    the keys of the tokens of the cells' data, by its name."""
    sets = [
        {"name": name, "transfer": False, **counts} for name, key in own.items() for counts in counts_of_tokens(key)
    ]
    for transfer in transfers:
        first = next((counts for key in own.values() for counts in transfer_counts(transfer, key)), None)
        sets += [{"name": transfer.name, "transfer": True, **first}] if first is not None else []
    return sets


def transfer_counts(transfer: Transfer, own: str) -> Iterator[dict[str, Any]]:
    try:
        yield from counts_of_tokens(transfer_data.transfer_key(transfer, own))
    except UserError:  # its file is gone; what was measured on it stays
        return


def counts_of_tokens(key: str) -> Iterator[dict[str, Any]]:
    folder = cache.place_of("tokens", key)
    if store.finished(folder):
        meta = store.read_json(folder / "meta.json")
        yield {name: meta[name] for name in ("sifted", "wordless", "merged")}
