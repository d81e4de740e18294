"""The files in deploy/, checked by programs that others wrote for them."""

import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def accepted(*words: object) -> None:
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def installed(name: str) -> Path:
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.skip(f"{name} is not installed")
    return path


def test_kubernetes_knows_every_field_of_the_manifests() -> None:
    manifests = sorted((DEPLOY / "kubernetes").glob("*.yaml"))

    assert len(manifests) == 4
    accepted(installed("kubernetes-validate"), "--strict", *manifests)


def test_the_compose_file_follows_the_specification() -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    accepted(installed("check-jsonschema"), *schema, DEPLOY / "compose.yaml")


def test_hadolint_has_no_complaint_about_the_containerfile() -> None:
    accepted(installed("hadolint"), DEPLOY / "Containerfile")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "transduce.service").read_text()
    changed = unit.replace("/opt/transduce/bin/transduce", shutil.which("true") or "/bin/true")
    (tmp_path / "transduce.service").write_text(changed)

    accepted("systemd-analyze", "verify", tmp_path / "transduce.service")


@pytest.mark.slow
def test_rays_deployment_translates(tmp_path: Path) -> None:
    if find_spec("ray") is None:  # `make test-clients` does not install it, as it is large
        pytest.skip("Ray is not installed: pip install 'ray[serve]'")
    serve = import_module("ray.serve")
    from tests.running import running

    text = (ROOT / "docs" / "deploying.md").read_text()
    code = re.search(r"```python\n(# translation.py.*?)```", text, re.DOTALL)
    assert code is not None
    (tmp_path / "served").mkdir()
    with running(tmp_path / "served") as server:
        model = str(tmp_path / "served" / "en-de")
        names: dict[str, object] = {}
        exec(code[1].replace("runs/mine", model), names)
        handle = serve.run(names["app"])
        assert handle.translate.remote("the old man").result() == server.says("the old man")
        serve.shutdown()
