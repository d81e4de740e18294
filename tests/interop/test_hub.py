"""A model goes to a hub and comes back. The hub is a stand-in on this machine."""

import base64
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
from tests.conftest import Transduce, in_a_process, refuses
from tests.exports import CONFIG, bundle_of, one_vocabulary

from transduce.bundle.bundle import Bundle

pytest.importorskip("huggingface_hub", reason="pip install -e .[hub]")
pytest.importorskip("transformers", reason="pip install -e .[test-interop]")

ID = "owner/small-en-de"
EXPORT = ("export", "mine", "--to", "hub", "--out", ID, "--sample", "sample")


class Hub(SimpleHTTPRequestHandler):
    """Stores the files of a commit where downloads look for them."""

    requests: list[tuple[str, str | None]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.path, self.headers["Authorization"]))
        address = f"http://{self.headers['Host']}/{ID}"
        answer: dict[str, object] = {}
        if self.path == "/api/repos/create":
            assert json.loads(body)["visibility"] == "private"
            answer = {"url": address}
        elif self.path == f"/api/models/{ID}/preupload/main":
            names = [file["path"] for file in json.loads(body)["files"]]
            regular = {"uploadMode": "regular", "shouldIgnore": False}
            answer = {"files": [{"path": name, **regular} for name in names]}
        elif self.path == f"/api/models/{ID}/commit/main":
            folder = Path(self.directory) / ID / "resolve" / "main"
            folder.mkdir(parents=True)
            for entry in map(json.loads, body.splitlines()):
                if entry["key"] == "file":
                    content = base64.b64decode(entry["value"]["content"])
                    (folder / entry["value"]["path"]).write_bytes(content)
            answer = {"commitUrl": f"{address}/commit/{'0' * 40}", "commitOid": "0" * 40}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    (tmp_path / "hub").mkdir()
    stand_in = type("StandIn", (Hub,), {"requests": []})
    handler = partial(stand_in, directory=str(tmp_path / "hub"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # for another process: this one is offline
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    Path("sample").write_text("a small house\n")
    yield stand_in
    server.shutdown()
    server.server_close()


def test_an_uploaded_model_can_be_imported(hub: type[Hub], tmp_path: Path, transduce: Transduce):
    bundle = bundle_of(CONFIG, one_vocabulary())
    bundle.save(tmp_path / "mine" / "model")  # of a run
    (tmp_path / "mine" / "model" / "README.md").write_text(
        "# Mine\n\n    transduce translate path/to/this/folder\n"
    )

    uploaded = in_a_process(*EXPORT, cwd=tmp_path)
    imported = transduce("import", ID)

    assert uploaded.returncode == 0, uploaded.stderr
    assert b"1 of 1 sentences identical" in uploaded.stderr
    assert {token for _, token in hub.requests} == {"Bearer hf_secret"}
    assert imported.code == 0, imported
    back = Bundle.load("models/small-en-de")
    for name, weight in bundle.weights.to_numpy().weights.items():
        assert (back.weights.to_numpy().weights[name] == weight).all(), name
    card = (tmp_path / "hub" / ID / "resolve" / "main" / "README.md").read_text()
    front = '---\nlibrary_name: "transformers"\npipeline_tag: "translation"\n'
    assert card.startswith(front)
    assert 'language: ["en", "de"]\n---\n\n# Mine\n' in card
    assert card.endswith(f"    transduce import {ID}\n    transduce translate models/small-en-de\n")


def test_without_a_network_one_line_says_what_to_do(
    hub: type[Hub], tmp_path: Path, transduce: Transduce
):
    bundle_of(CONFIG, one_vocabulary()).save(tmp_path / "mine")

    result = transduce(*EXPORT)

    refuses(result, "refuses to store owner/small-en-de", "offline mode", "`hf auth login`")


def test_a_name_that_is_no_repository_is_refused(tmp_path: Path, transduce: Transduce):
    bundle_of(CONFIG, one_vocabulary()).save(tmp_path / "mine")

    result = transduce("export", tmp_path / "mine", "--to", "hub", "--out", tmp_path / "other")

    refuses(result, f"{tmp_path / 'other'} is no repository of a hub: name OWNER/NAME by --out")


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    bundle_of(CONFIG, one_vocabulary()).save(tmp_path / "mine")

    def absent(name: str) -> ModuleType:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("transduce.export.hub.import_module", absent)

    result = transduce("export", tmp_path / "mine", "--to", "hub", "--out", ID)

    refuses(result, "huggingface_hub is not installed: pip install 'transduce[hub]'")
