"""A server's application without a socket: translators that are told from afar, asked by httpx."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import httpx
from jsonschema import Draft202012Validator
from starlette.applications import Starlette

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages
from transduce.data.tokenizer import Tokenizer
from transduce.inference.glossary import Term
from transduce.inference.translation import Alternative, Translation
from transduce.inference.translator import Extras, Translator
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.serve.app import make_app
from transduce.serve.model_registry import Direction, ModelRegistry, make_direction
from transduce.serve.settings import ServerSettings


class Loud(Translator):
    """Says every sentence in capitals, behind the code of its target; the k-th best ends in k."""

    def __init__(self, target: str, model: Transformer) -> None:
        self.target = target
        self.model = model
        self.search = SearchConfig(beam=3)
        self.confidence = None
        self.engine_description = "engine: a loud voice"
        self.received: list[str] = []
        self.beams: list[int | None] = []
        self.glossary: tuple[Term, ...] = ()
        self.started, self.go = threading.Event(), threading.Event()
        self.go.set()

    def decode(  # type: ignore[override]
        self,
        sentences: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        extras: Extras | None = None,
        prefix: str | Sequence[str] = "",
        batch_tokens: int = 0,
    ) -> list[Translation]:
        given = list(sentences)
        self.received += given
        self.beams.append(beam)
        self.glossary = extras.glossary if extras else ()
        self.started.set()
        self.go.wait(10)
        if "Break down." in given:
            raise RuntimeError("a secret of the server")
        assert nbest <= (beam or self.search.beam)
        return [
            self._translation(text, start, nbest) for text, start in zip(given, prefix, strict=True)
        ]

    def alignment(self, translation: Translation, *, text: str | None = None) -> str:
        return " ".join(f"{n}-{n}" for n in range(len(translation.source.split())))

    def _translation(self, text: str, prefix: str, nbest: int) -> Translation:
        words = text.upper() if not prefix else f"{prefix} {text.upper()}"
        return Translation(
            source=text,
            text=words,
            score=-1.5,
            ids=(3, 0),
            pieces=("▁x", "</s>"),
            log_probs=(-0.5, -1.0),
            others=tuple(Alternative(text=f"{words} {k}", score=-2.0) for k in range(2, nbest + 1)),
        )


def bundle_of(
    source: str, target: str, *, tokenizer: Tokenizer, model: Transformer, recipe: str = ""
) -> Bundle:
    return Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=Languages(source=source, target=target),
        search=SearchConfig(beam=2, max_source=40),
        provenance=Provenance(recipe=recipe),
    )


def direction_of(bundle: Bundle, translator: Translator, settings: ServerSettings) -> Direction:
    return make_direction(bundle, translator, replace(settings, wait_ms=0.0, batch_sentences=64))


@dataclass(kw_only=True)
class Served:
    """An application, and those who translate in it."""

    app: Starlette
    loud: Mapping[str, Loud]
    documented: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)
    components: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)

    def ask(
        self,
        verb: str,
        path: str,
        *,
        json: object = None,
        data: Mapping[str, str | list[str]] | None = None,
        files: Mapping[str, tuple[str, bytes]] | None = None,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Ask, and see that the answer is as the server's document says: status, type, content."""

        async def go() -> httpx.Response:
            async with self.client() as client:
                return await client.request(
                    verb,
                    path,
                    json=json,
                    data=data,
                    files=files,
                    params=params,
                    content=content,
                    headers=headers,
                )

        result = asyncio.run(go())
        self._is_documented(verb, path, result)
        return result

    def post(self, path: str, **fields: object) -> httpx.Response:
        """Ask with a JSON object."""
        return self.ask("POST", path, json=fields)

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost:5000")

    def _is_documented(self, verb: str, path: str, response: httpx.Response) -> None:
        if path == "/openapi.json":
            document = json.loads(response.content)
            self.documented, self.components = document["paths"], document["components"]
            return
        if not self.documented:
            self.ask("GET", "/openapi.json")
        route = path.partition("?")[0]
        ways = self.documented.get(route) or next(
            (self.documented[shape] for shape in self.documented if _matches(route, shape)), {}
        )
        way = ways.get(verb.lower())
        if way is not None:
            documented = way["responses"]
            assert isinstance(documented, dict)
            assert str(response.status_code) in documented, (verb, path, response.status_code)
            self._has_content(response, documented[str(response.status_code)])

    def _has_content(self, response: httpx.Response, documented: dict[str, object]) -> None:
        """See that the content of an answer is what its schema allows."""
        if "$ref" in documented:
            name = str(documented["$ref"]).rpartition("/")[2]
            documented = self.components["responses"][name]
        contents = documented.get("content", {})
        assert isinstance(contents, dict)
        if not contents:
            assert response.content == b""
            return
        kind = response.headers["content-type"]
        kinds = {re.sub("; charset=utf-8$", "", name) for name in (kind, *contents)}
        assert len(kinds) == len(contents), (kind, list(contents))
        if kind == "application/json":
            schema = {**contents[kind].get("schema", {}), "components": self.components}
            Draft202012Validator(schema).validate(response.json())


def _matches(route: str, shape: str) -> bool:
    """Tell whether a path has the shape of one with parameters in braces."""
    return re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(shape)), route) is not None


Serve = Callable[..., Served]


@contextmanager
def serving(
    pairs: Sequence[str],
    settings: ServerSettings | None = None,
    *,
    tokenizer: Tokenizer,
    model: Transformer,
) -> Iterator[Served]:
    """Serve pairs of languages such as "en-de", each by a loud voice."""
    settings = settings or ServerSettings()
    loud = {pair: Loud(pair.partition("-")[2], model) for pair in pairs}
    registry = ModelRegistry(
        [
            direction_of(
                bundle_of(*pair.split("-", 1), tokenizer=tokenizer, model=model), voice, settings
            )
            for pair, voice in loud.items()
        ]
    )
    app = make_app(registry, settings)
    try:
        yield Served(app=app, loud=loud)
    finally:
        registry.close()
        app.state.store.close()
        app.state.glossaries.close()
