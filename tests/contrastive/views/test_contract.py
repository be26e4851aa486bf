"""What every entry of VIEWS keeps, on a real encoder: a new view meets this contract without a test of its own."""

from functools import partial

import pytest

from contrastive.config import registry
from contrastive.contract import views
from contrastive.contract.views import Case, Make, made
from contrastive.views.lexicon import Lexicon
from contrastive.views.translation import Rephrase
from contrastive.views.types import Encode

CASES = [
    case
    for name, line in registry.views().items()
    if "small" not in line.tools  # it cuts images: test_augment.py
    for case in views.cases_of(name)
]
WHOLE = {"span": (1, 6, 0)}  # each of its six is a part of a text
# All with bert; with deberta-v2 the first of each kind by what it asks of an encoder, but for changed positions, which
# deberta-v2, that only knows distances, has not.
FIRST = {(f.looks_into, f.attention, f.judged, f.changed_passes > 0): case for case in reversed(CASES)
         if not (f := case.facts).positions}  # fmt: skip
MET = [*((case, "bert") for case in CASES), *((case, "deberta-v2") for case in FIRST.values())]
every_view = pytest.mark.parametrize(("case", "encode"), MET, ids=str, indirect=["encode"])


@pytest.fixture
def make(case: Case, encode: Encode, lexicon: Lexicon, rephrase: Rephrase, talkative: tuple[str, str]) -> Make:
    more = {"lexicon": lexicon, "rephrase": rephrase, "translators": talkative}
    return partial(made, case, encode, more)


@pytest.mark.parametrize("holds", [holds for holds, check in views.CHECKS.items() if check != views.asks_what_it_says])
@every_view
def test_every_view_keeps_the_contract(case: Case, make: Make, holds: str):
    views.CHECKS[holds](case, make)


@every_view
def test_it_asks_of_the_encoder_what_it_says(case: Case, make: Make):
    views.asks_what_it_says(case, make, WHOLE.get(case.name))
