"""What the cells of a group give where nothing happens to any of them."""

import pytest

from tests.contrastive.stages.in_turns import alone, group_of


@pytest.fixture(scope="module")
def undisturbed(source: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ABLATE_HOME", str(tmp_path_factory.mktemp("undisturbed")))
        return alone(group_of(source))
