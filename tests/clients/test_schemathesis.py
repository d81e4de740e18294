"""Schemathesis reads the served document and asks what it can think of."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.running import running

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
)


@pytest.mark.parametrize(
    ("phases", "examples"),
    [("fuzzing", "3"), pytest.param("examples,coverage,fuzzing", "15", marks=pytest.mark.slow)],
)
def test_there_is_no_server_error_and_no_undocumented_answer(
    tmp_path: Path, phases: str, examples: str
) -> None:
    pytest.importorskip("schemathesis")
    (tmp_path / "served").mkdir()
    with running(tmp_path / "served", "--quiet") as server:
        result = subprocess.run(
            [
                *(Path(sys.executable).with_name("st"), "run", f"{server.url}openapi.json"),
                *("--checks", ",".join(CHECKS), "--max-examples", examples, "--no-shrink"),
                *("--generation-deterministic", "--no-color"),
                *("--suppress-health-check", "all", "--phases", phases),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        log = server.log.read_text()

    assert result.returncode == 0, result.stdout
    assert "Traceback" not in log
