"""transduce serve.

--workers and --threads have no environment variables: LT_THREADS has another meaning in
LibreTranslate.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, get_type_hints

import typer
from typer.models import OptionInfo

from transduce.cli.app import Threads, Workers, app, print_stderr
from transduce.cli.translate import EngineName
from transduce.serve.settings import ServerSettings, read_keys

_DEFAULTS = ServerSettings()
_REQUIRED_PACKAGES = ("starlette", "uvicorn", "prometheus_client", "python_multipart", "limits")


@app.command()
def serve(
    models: Annotated[
        list[Path], typer.Argument(help="Folders of models or runs, one per direction.")
    ],
    host: Annotated[
        str, typer.Option(envvar="LT_HOST", help="Address to bind; 0.0.0.0: all interfaces.")
    ] = _DEFAULTS.host,
    port: Annotated[
        int, typer.Option(envvar="LT_PORT", help="TCP port; 0: a free one.")
    ] = _DEFAULTS.port,
    beam: Annotated[
        int | None, typer.Option(envvar="LT_BEAM", help="Beam size [default: the model's].")
    ] = _DEFAULTS.beam,
    languages: Annotated[
        list[str] | None,
        typer.Option(
            envvar="LT_LANGUAGES",
            metavar="SOURCE-TARGET",
            help="Languages, such as en-de, of a model made without; repeatable, in order.",
        ),
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(envvar="LT_ENGINE", help="Inference engine; auto: the fastest available."),
    ] = "auto",
    compute_type: Annotated[
        str, typer.Option(envvar="LT_COMPUTE_TYPE", help="CTranslate2: float32, int8 or auto.")
    ] = "float32",
    workers: Workers = None,
    threads: Threads = None,
    char_limit: Annotated[
        int, typer.Option(envvar="LT_CHAR_LIMIT", help="Maximum characters per text (-1 = any).")
    ] = _DEFAULTS.char_limit,
    batch_limit: Annotated[
        int, typer.Option(envvar="LT_BATCH_LIMIT", help="Maximum texts per request (-1 = any).")
    ] = _DEFAULTS.batch_limit,
    work_limit: Annotated[
        int,
        typer.Option(
            envvar="LT_WORK_LIMIT",
            help="Maximum work per request, in sentences of 128 characters at a beam of 4 "
            "(-1 = any).",
        ),
    ] = _DEFAULTS.work_limit,
    alternatives_limit: Annotated[
        int,
        typer.Option(
            envvar="LT_ALTERNATIVES_LIMIT", help="Maximum alternatives per text (-1 = any)."
        ),
    ] = _DEFAULTS.alternatives_limit,
    req_limit: Annotated[
        int,
        typer.Option(
            envvar="LT_REQ_LIMIT",
            help="Maximum requests per minute of an API key, or address without one (-1 = any).",
        ),
    ] = _DEFAULTS.req_limit,
    body_limit: Annotated[
        int, typer.Option(envvar="LT_BODY_LIMIT", help="Maximum size of a request body in bytes.")
    ] = _DEFAULTS.body_limit,
    time_limit: Annotated[
        float, typer.Option(envvar="LT_TIME_LIMIT", help="Response timeout in seconds.")
    ] = _DEFAULTS.time_limit_s,
    queue: Annotated[
        int, typer.Option(envvar="LT_QUEUE", help="Maximum queued requests per direction.")
    ] = _DEFAULTS.queue,
    batch_sentences: Annotated[
        int, typer.Option(envvar="LT_BATCH_SENTENCES", help="Maximum batch size in sentences.")
    ] = _DEFAULTS.batch_sentences,
    wait_ms: Annotated[
        float, typer.Option(envvar="LT_WAIT_MS", help="Maximum wait for a batch to fill, in ms.")
    ] = _DEFAULTS.wait_ms,
    client_time: Annotated[
        float, typer.Option(envvar="LT_CLIENT_TIME", help="Request body timeout in seconds.")
    ] = _DEFAULTS.body_timeout_s,
    head_time: Annotated[
        float, typer.Option(envvar="LT_HEAD_TIME", help="Request header timeout in seconds.")
    ] = _DEFAULTS.header_timeout_s,
    keep_alive: Annotated[
        float, typer.Option(envvar="LT_KEEP_ALIVE", help="Idle timeout of a connection in seconds.")
    ] = _DEFAULTS.keep_alive_s,
    client_connections: Annotated[
        int,
        typer.Option(
            envvar="LT_CLIENT_CONNECTIONS",
            help="Maximum concurrent connections of an address (-1 = any).",
        ),
    ] = _DEFAULTS.client_connection_limit,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            envvar="LT_TRUSTED_PROXY",
            metavar="ADDRESS",
            help="Reverse proxy whose X-Forwarded-For names the client; repeatable.",
        ),
    ] = None,
    drain_time: Annotated[
        float, typer.Option(envvar="LT_DRAIN_TIME", help="Seconds to finish requests on shutdown.")
    ] = _DEFAULTS.drain_s,
    api_keys: Annotated[
        Path | None,
        typer.Option(
            envvar="LT_API_KEYS",
            help="API keys, one per line, each optionally followed by its limits: characters per "
            "text, requests per minute, characters per day (-1 = any). Read again when changed.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            envvar="LT_ALLOW_HOST",
            help="Host name of a proxy that clients may use; repeatable, * = any.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            envvar="LT_ALLOW_ORIGIN",
            help="Origin of web pages that may use the server; repeatable, * = any.",
        ),
    ] = None,
    url_prefix: Annotated[
        str, typer.Option(envvar="LT_URL_PREFIX", help="Path under which everything is served.")
    ] = _DEFAULTS.url_prefix,
    memory: Annotated[
        Path | None,
        typer.Option(
            envvar="LT_MEMORY",
            metavar="STORE",
            help="Take texts from this translation memory, and store corrections in it "
            "(POST /suggest, page).",
        ),
    ] = None,
    explorer: Annotated[
        bool,
        typer.Option(
            "--explorer",
            envvar="LT_EXPLORER",
            help="Serve a page that shows every number of a model; it contains the weights.",
        ),
    ] = False,
    disable_web_ui: Annotated[
        bool,
        typer.Option("--disable-web-ui", envvar="LT_DISABLE_WEB_UI", help="Serve the API only."),
    ] = False,
    get_api_key_link: Annotated[
        str, typer.Option(envvar="LT_GET_API_KEY_LINK", help="URL where users get an API key.")
    ] = _DEFAULTS.get_api_key_link,
    metrics_auth_token: Annotated[
        str, typer.Option(envvar="LT_METRICS_AUTH_TOKEN", help="Bearer token required by /metrics.")
    ] = _DEFAULTS.metrics_auth_token,
    frontend_timeout: Annotated[
        int, typer.Option(envvar="LT_FRONTEND_TIMEOUT", help="Typing delay of the page in ms.")
    ] = _DEFAULTS.frontend_timeout,
    quiet: Annotated[
        bool, typer.Option("--quiet", envvar="LT_QUIET", help="Do not log requests.")
    ] = False,
) -> None:
    """Serve models over HTTP: LibreTranslate's API, DeepL's API and a web page.

    A model that takes the place of another, as by `transduce adapt`, is loaded while requests are
    answered. The first SIGINT, SIGTERM or SIGHUP finishes accepted requests and exits with 0.

    Examples:

    \b
      transduce serve runs/mine
      transduce serve runs/mine --memory corrections.db
      transduce serve runs/en-de runs/de-en --host 0.0.0.0 --char-limit 5000 --api-keys keys.txt
      curl -d q="A dog runs." -d source=en -d target=de localhost:5000/translate
    """
    warn_of_unsupported(os.environ)
    settings = ServerSettings(
        host=host,
        port=port,
        beam=beam,
        char_limit=char_limit,
        batch_limit=batch_limit,
        work_limit=work_limit,
        alternatives_limit=alternatives_limit,
        req_limit=req_limit,
        client_connection_limit=client_connections,
        trusted_proxies=tuple(trusted_proxy or ()),
        body_limit=body_limit,
        time_limit_s=time_limit,
        queue=queue,
        batch_sentences=batch_sentences,
        wait_ms=wait_ms,
        body_timeout_s=client_time,
        header_timeout_s=head_time,
        keep_alive_s=keep_alive,
        drain_s=drain_time,
        keys=read_keys(api_keys) if api_keys else (),
        key_file=api_keys,
        allow_hosts=tuple(host.lower() for host in allow_host or ()),
        allow_origins=tuple(allow_origin or ()),
        url_prefix=url_prefix,
        memory=memory,
        explorer=explorer,
        disable_web_ui=disable_web_ui,
        get_api_key_link=get_api_key_link,
        metrics_auth_token=metrics_auth_token,
        frontend_timeout=frontend_timeout,
        quiet=quiet,
    )
    code = _serve(models, settings, engine, compute_type, (workers, threads), languages or [])
    if code:
        raise SystemExit(code)


def warn_of_unsupported(environment: Mapping[str, str]) -> None:
    """Name variables of LibreTranslate that have no effect: a limit may be relied upon."""
    options = get_type_hints(serve, include_extras=True).values()
    known = {
        info.envvar
        for option in options
        for info in getattr(option, "__metadata__", ())
        if isinstance(info, OptionInfo) and isinstance(info.envvar, str)
    }
    given = {name for name, value in environment.items() if name.startswith("LT_") and value}
    for name in sorted(given - known):
        print_stderr(f"WARNING: {name} is not supported and has no effect")


def _serve(
    models: list[Path],
    settings: ServerSettings,
    engine: EngineName,
    compute_type: str,
    plan: tuple[int | None, int | None],
    languages: list[str],
) -> int:
    """Bind the address before loading models, so that a wrong port fails at once."""
    missing = [name for name in _REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"serving needs {missing[0]}, which is not installed: pip install 'transduce[serve]'"
        )
    from transduce.serve.server import bind, run, url_of

    bound = bind(settings)
    with bound:
        from transduce.cli.translate import make_plan
        from transduce.serve.app import make_app
        from transduce.serve.model_registry import load_models

        registry = load_models(
            models,
            settings,
            languages=languages,
            engine=engine,
            compute_type=compute_type,
            plan=make_plan(*plan, compute_type),
        )
        for path, direction in zip(models, registry.directions, strict=True):
            if direction.bundle.languages.missing:
                print_stderr(
                    f"WARNING: {path} has no languages, and is served as {direction.name}: add "
                    f"--languages SOURCE-TARGET, or run `transduce relabel` once"
                )
        served = ", ".join(
            f"{direction.name} ({direction.translator.engine_description})"
            for direction in registry.directions
        )
        try:
            return run(
                make_app(registry, settings),
                settings,
                bound=bound,
                on_ready=lambda: print_stderr(f"ready at {url_of(bound)}: {served}"),
            )
        finally:
            registry.close()
