"""Translators that know each other's language, made once."""

import pytest

from tests.contrastive.views.toy_translation import ENGLISH, GERMAN, PARAPHRASE, learnt


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """There, and back to a paraphrase that is known: `paraphrased`."""
    german = dict(zip(ENGLISH, GERMAN, strict=True))
    back = {german[word]: PARAPHRASE[word] for word in ENGLISH}
    there_and_back = learnt(tmp_path_factory.mktemp("translators"), {"there": german, "back": back})
    return there_and_back[0], there_and_back[1]
