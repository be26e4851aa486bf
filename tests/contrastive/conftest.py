"""Translators that know each other's language, made once."""

import pytest

from tests.contrastive.views.toy_translation import ENGLISH, GERMAN, PARAPHRASE, learnt


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """There, and back to a paraphrase that is known: `paraphrased`."""
    folder, german = tmp_path_factory.mktemp("translators"), dict(zip(ENGLISH, GERMAN, strict=True))
    back = {german[word]: PARAPHRASE[word] for word in ENGLISH}
    return learnt(folder / "there", german), learnt(folder / "back", back)
