"""transduce serve: a server for LibreTranslate's and DeepL's clients, with a page of its own.

LT_THREADS means something else to LibreTranslate, so --workers and --threads have no variables.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, talk
from transduce.cli.translate import EngineName
from transduce.serve.settings import ServerSettings, read_keys

_USUAL = ServerSettings()
_NEEDED = ("starlette", "uvicorn", "prometheus_client", "python_multipart")


@app.command()
def serve(
    models: Annotated[
        list[Path], typer.Argument(help="Models' folders, or runs', each of another direction.")
    ],
    host: Annotated[
        str, typer.Option(envvar="LT_HOST", help="Address; 0.0.0.0 answers other machines too.")
    ] = _USUAL.host,
    port: Annotated[int, typer.Option(envvar="LT_PORT", help="0 takes a free one.")] = _USUAL.port,
    beam: Annotated[
        int | None, typer.Option(envvar="LT_BEAM", help="Hypotheses followed [the model's].")
    ] = _USUAL.beam,
    engine: Annotated[
        EngineName,
        typer.Option(envvar="LT_ENGINE", help="Who computes; auto takes the fastest that can."),
    ] = "auto",
    compute_type: Annotated[
        str,
        typer.Option(envvar="LT_COMPUTE_TYPE", help="CTranslate2's: float32, int8 or auto."),
    ] = "float32",
    workers: Annotated[int | None, typer.Option(help="Batches side by side [measured].")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of each worker [measured].")] = None,
    char_limit: Annotated[
        int, typer.Option(envvar="LT_CHAR_LIMIT", help="Most characters of a text; -1: any.")
    ] = _USUAL.char_limit,
    batch_limit: Annotated[
        int, typer.Option(envvar="LT_BATCH_LIMIT", help="Most texts of a request; -1: any.")
    ] = _USUAL.batch_limit,
    alternatives_limit: Annotated[
        int,
        typer.Option(envvar="LT_ALTERNATIVES_LIMIT", help="Most alternatives a text; -1: any."),
    ] = _USUAL.alternatives_limit,
    body_limit: Annotated[
        int, typer.Option(envvar="LT_BODY_LIMIT", help="Most bytes of a request's body.")
    ] = _USUAL.body_limit,
    time_limit: Annotated[
        float, typer.Option(envvar="LT_TIME_LIMIT", help="Most seconds for an answer.")
    ] = _USUAL.time_limit_s,
    queue: Annotated[
        int, typer.Option(envvar="LT_QUEUE", help="Requests that may wait for a direction.")
    ] = _USUAL.queue,
    batch_sentences: Annotated[
        int, typer.Option(envvar="LT_BATCH_SENTENCES", help="Most sentences computed together.")
    ] = _USUAL.batch_sentences,
    wait_ms: Annotated[
        float, typer.Option(envvar="LT_WAIT_MS", help="Most time a batch waits for others.")
    ] = _USUAL.wait_ms,
    client_time: Annotated[
        float,
        typer.Option(envvar="LT_CLIENT_TIME", help="Seconds in which a client sends a body."),
    ] = _USUAL.body_timeout_s,
    head_time: Annotated[
        float, typer.Option(envvar="LT_HEAD_TIME", help="Seconds in which it sends a head.")
    ] = _USUAL.header_timeout_s,
    keep_alive: Annotated[
        float, typer.Option(envvar="LT_KEEP_ALIVE", help="Seconds a connection may idle.")
    ] = _USUAL.keep_alive_s,
    drain_time: Annotated[
        float, typer.Option(envvar="LT_DRAIN_TIME", help="Seconds for finishing when stopped.")
    ] = _USUAL.drain_s,
    api_keys: Annotated[
        Path | None,
        typer.Option(
            envvar="LT_API_KEYS", help="A file: a key a line, and behind it its char limit if any."
        ),
    ] = None,
    get_api_key_link: Annotated[
        str, typer.Option(envvar="LT_GET_API_KEY_LINK", help="Where keys can be had.")
    ] = _USUAL.get_api_key_link,
    metrics_auth_token: Annotated[
        str, typer.Option(envvar="LT_METRICS_AUTH_TOKEN", help="What /metrics wants as Bearer.")
    ] = _USUAL.metrics_auth_token,
    frontend_timeout: Annotated[
        int, typer.Option(envvar="LT_FRONTEND_TIMEOUT", help="Milliseconds the page waits to type.")
    ] = _USUAL.frontend_timeout,
    quiet: Annotated[
        bool, typer.Option("--quiet", envvar="LT_QUIET", help="Log no line for each request.")
    ] = False,
) -> None:
    """Answer LibreTranslate's and DeepL's clients, and browsers, over HTTP.

    The first signal to stop lets it finish what it accepted; it then exits with 0.

    Examples:

    \b
      transduce serve runs/mine
      transduce serve runs/en-de runs/de-en --host 0.0.0.0 --char-limit 5000 --api-keys keys.txt
      curl -d q="A dog runs." -d source=en -d target=de localhost:5000/translate
    """
    settings = ServerSettings(
        host=host,
        port=port,
        beam=beam,
        char_limit=char_limit,
        batch_limit=batch_limit,
        alternatives_limit=alternatives_limit,
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
        get_api_key_link=get_api_key_link,
        metrics_auth_token=metrics_auth_token,
        frontend_timeout=frontend_timeout,
        quiet=quiet,
    )
    code = _serve(models, settings, engine, compute_type, (workers, threads))
    if code:
        raise SystemExit(code)


def _serve(
    models: list[Path],
    settings: ServerSettings,
    engine: EngineName,
    compute_type: str,
    plan: tuple[int | None, int | None],
) -> int:
    """Take the address first, and load models then: a wrong port need not wait for torch."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"a server needs {missing[0]}, which is not installed: pip install 'transduce[serve]'"
        )
    from transduce.serve.server import bind, run, url_of

    bound = bind(settings)
    with bound:
        from transduce.cli.translate import plan_of
        from transduce.serve.app import make_app
        from transduce.serve.model_registry import load_models

        registry = load_models(
            models,
            settings,
            engine=engine,
            compute_type=compute_type,
            plan=plan_of(*plan, compute_type),
        )
        served = ", ".join(f"{way.name} ({way.translator.why})" for way in registry.directions)
        try:
            return run(
                make_app(registry, settings),
                settings,
                bound=bound,
                on_ready=lambda: talk(f"ready at {url_of(bound)}: {served}"),
            )
        finally:
            registry.close()
