"""A real browser at a real server: untrained models of both directions, on a port of this machine.

Without Playwright or a Chromium these tests are skipped, and say so; TRANSDUCE_BROWSER=required
makes that a failure. TRANSDUCE_ARTEFACTS names a folder for the screenshots.
"""

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from tests.chromium import browser as browser  # a fixture
from tests.chromium import lacking
from tests.conftest import SHAPE, made
from tests.unit.conftest import LINES

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Calibration, Confidence
from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.inference.translator import Translator
from transduce.search.config import SearchConfig
from transduce.web.page import write_web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from transduce.serve.model_registry import Direction

Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens, as `transduce serve` makes one."""
    try:
        import uvicorn
        from tests.served import bundle_of, direction_of

        from transduce.serve.app import make_app
        from transduce.serve.model_registry import ModelRegistry
        from transduce.serve.settings import ServerSettings
    except ImportError as error:
        lacking(f"{error.name} is not installed")
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=97))
    model = made(replace(SHAPE, vocab_size=tokenizer.vocab_size, decoder_layers=2)).eval()
    with torch.no_grad():
        model.embedding.weight *= 3.0  # it prefers some pieces clearly
    settings = ServerSettings(
        char_limit=500,
        frontend_timeout=50,
        quiet=True,
        explorer=True,
        memory=tmp_path_factory.mktemp("memory") / "memory.db",
    )
    worth = Calibration(log_probs=(-9.0, 0.0), worth=(0.0, 1.0), observations=100)
    ways: list[Direction] = []
    for pair in (("en", "de"), ("de", "en")):
        bundle = bundle_of(*pair, tokenizer=tokenizer, model=model)
        bundle.confidence = Confidence(words=worth, sentences=worth)
        translator = Translator.from_parts(model, tokenizer, search=SearchConfig(beam=3, extra=4))
        translator.confidence = bundle.confidence
        ways.append(direction_of(bundle, translator, settings))
    registry = ModelRegistry(ways)
    app = make_app(registry, settings)
    # A client that left a connection half open must not keep the tests from ending.
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
        server.should_exit = True
        thread.join()
    registry.close()
    app.state.store.close()


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    """An untrained model of the exported page."""
    from tests.served import bundle_of

    config = TokenizerConfig(vocab_size=400, byte_fallback=True)
    tokenizer = Tokenizer.train(LINES, config)
    shape = replace(SHAPE, vocab_size=tokenizer.vocab_size, d_model=16, d_ff=24, d_k=4, d_v=8)
    model = made(shape).eval()
    with torch.no_grad():
        model.embedding.weight *= 3.0  # it prefers some pieces clearly
    bundle = bundle_of("en", "de", tokenizer=tokenizer, model=model)
    bundle.search = replace(bundle.search, extra=8)
    bundle.languages = replace(bundle.languages, source_name="English", target_name="German")
    return bundle


@pytest.fixture(scope="session")
def page_file(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `export --to web`."""
    file = tmp_path_factory.mktemp("page") / "translator.html"
    write_web(bundle, file)
    return file


@pytest.fixture(scope="session")
def findings() -> "Callable[[Page], list[str]]":
    """What axe-core calls serious or critical: the rule, and an element that breaks it."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        lacking("axe-playwright-python is not installed")
    axe = Axe()

    def serious(page: "Page") -> list[str]:
        return [
            f"{violation['id']}: {violation['nodes'][0]['html'][:200]}"
            for violation in axe.run(page).response["violations"]
            if violation["impact"] in ("serious", "critical")
        ]

    return serious


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Open]:
    """Open an address; at the end nothing was fetched from elsewhere and nothing was complained of.

    Refusals that a test provokes are no complaints.
    """
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def opened(
        address: str,
        *,
        wide: int = 1280,
        high: int = 800,
        scheme: str = "light",
        script: bool = True,
    ) -> "Page":
        context = browser.new_context(
            viewport={"width": wide, "height": high},
            color_scheme=scheme,
            java_script_enabled=script,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)

        def check_request(url: str) -> None:
            own = re.split("[?#]", address, maxsplit=1)[0]
            if not url.startswith((own, "data:", "blob:")):
                problems.append(f"asked {url}")

        def check_message(kind: str, text: str) -> None:
            if kind in ("error", "warning") and "Failed to load resource" not in text:
                problems.append(text)

        page.on("request", lambda request: check_request(request.url))
        page.on("console", lambda message: check_message(message.type, message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")  # a question still being answered
        context.close()
    assert problems == []


@pytest.fixture
def keep(tmp_path: Path) -> Callable[["Page", str], None]:
    """Keep a screenshot of the whole page under a name."""
    folder = Path(os.environ.get("TRANSDUCE_ARTEFACTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def shot(page: "Page", name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=True)

    return shot
