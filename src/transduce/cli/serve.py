"""transduce serve.

--workers and --threads have no environment variables: LT_THREADS has another meaning in
LibreTranslate.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args, get_origin, get_type_hints

from typer import Argument, Option

from transduce.cli.app import Threads, Workers, app, print_stderr
from transduce.cli.entry import exit_code
from transduce.cli.translate import EngineName
from transduce.io.machine import usable_cores
from transduce.serve.settings import ServerSettings, read_keys

if TYPE_CHECKING:
    from transduce.serve.model_registry import ModelRegistry
    from transduce.serve.processes import Work

_REQUIRED_PACKAGES = (
    *("starlette", "uvicorn", "httptools", "prometheus_client", "python_multipart", "limits"),
)
_OPTION_NAMES = {
    "time_limit_s": "time_limit",
    "body_timeout_s": "client_time",
    "header_timeout_s": "head_time",
    "keep_alive_s": "keep_alive",
    "drain_s": "drain_time",
    "client_connection_limit": "client_connections",
    "trusted_proxies": "trusted_proxy",
    "key_file": "api_keys",
    "allow_hosts": "allow_host",
    "allow_origins": "allow_origin",
}
"""Options that are not called as their setting."""

Function = TypeVar("Function", bound=Callable[..., None])


def _with_settings(command: Function) -> Function:
    """Replace a command's `**settings` by an option for each documented field of ServerSettings."""
    signature = inspect.signature(command, eval_str=True)
    *parameters, _ = signature.parameters.values()
    defaults = ServerSettings()
    for name, hint in get_type_hints(ServerSettings, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, doc = get_args(hint)
            default = getattr(defaults, name)
            if isinstance(default, tuple):
                kind, default = list[str], None
            option = _OPTION_NAMES.get(name, name)
            flag, variable = f"--{option.replace('_', '-')}", f"LT_{option.upper()}"
            info = Option(default, flag, envvar=variable, help=doc.documentation)
            keyword_only = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, keyword_only, default=info, annotation=kind))
    command.__signature__ = signature.replace(parameters=parameters)  # typer reads it
    return command


@app.command()
@_with_settings
def serve(
    models: Annotated[list[Path], Argument(help="Folders of models or runs, one per direction.")],
    *,
    languages: Annotated[
        list[str] | None,
        Option(
            envvar="LT_LANGUAGES",
            metavar="SOURCE-TARGET",
            help="Languages, such as en-de, of a model made without; repeatable, in order.",
        ),
    ] = None,
    engine: Annotated[
        EngineName,
        Option(envvar="LT_ENGINE", help="Inference engine; auto: the fastest available."),
    ] = "auto",
    compute_type: Annotated[
        str, Option(envvar="LT_COMPUTE_TYPE", help="Precision: float32, int8 or auto.")
    ] = "float32",
    workers: Workers = None,
    threads: Threads = None,
    shortlist: Annotated[
        Path | None,
        Option(
            envvar="LT_SHORTLIST",
            help="Lexical shortlist (vmap.txt) of the only model: faster, with slightly different "
            "output.",
        ),
    ] = None,
    **settings: object,
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
    given = {
        name: tuple(map(str, value)) if isinstance(value, list) else value
        for name, value in settings.items()
        if value is not None
    }
    server_settings = replace(ServerSettings(), **given)
    hosts = tuple(host.lower() for host in server_settings.allow_hosts)
    keys = read_keys(server_settings.key_file) if server_settings.key_file else ()
    server_settings = replace(server_settings, allow_hosts=hosts, keys=keys)
    if server_settings.processes > 1:  # they share the cores
        count = max(1, int(usable_cores()) // server_settings.processes)
        os.environ.setdefault("OMP_NUM_THREADS", str(count))  # a limit for all engines
    load = partial(
        _load,
        models,
        engine=engine,
        compute_type=compute_type,
        plan=(workers, threads),
        shortlist=shortlist,
        languages=languages or [],
    )
    if code := _serve(partial(_work, load), server_settings):
        raise SystemExit(code)


def warn_of_unsupported(environment: Mapping[str, str]) -> None:
    """Name variables of LibreTranslate that have no effect: a limit may be relied upon."""
    options = inspect.signature(serve, eval_str=True).parameters.values()
    infos = [info for option in options for info in (option.default, *get_args(option.annotation))]
    known = {getattr(info, "envvar", None) for info in infos}
    variables = {name for name, value in environment.items() if name.startswith("LT_") and value}
    for name in sorted(variables - known):
        print_stderr(f"WARNING: {name} is not supported and has no effect")


def _serve(work: "Work", settings: ServerSettings) -> int:
    """Bind the address before loading models, so that a wrong port fails at once."""
    missing = [name for name in _REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"serving needs {missing[0]}, which is not installed: pip install 'transduce[serve]'"
        )
    from transduce.serve.processes import supervise
    from transduce.serve.server import bind, url_of

    with bind(settings) as bound:
        url = url_of(bound)
        if settings.processes == 1:
            return work(settings, bound, lambda served: print_stderr(f"ready at {url}: {served}"))
        number = settings.processes
        return supervise(
            partial(_process_work, work),
            settings,
            bound=bound,
            on_ready=lambda line: print_stderr(f"ready at {url}: {line}, {number} processes"),
        )


def _process_work(
    work: "Work", settings: ServerSettings, bound: socket, on_ready: Callable[[str], None]
) -> int:
    return exit_code(partial(work, settings, bound, on_ready), command="serve")


def _work(
    load: "Callable[[ServerSettings], ModelRegistry]",
    settings: ServerSettings,
    bound: socket,
    on_ready: Callable[[str], None],
) -> int:
    from transduce.serve.app import make_app
    from transduce.serve.server import run

    registry = load(settings)
    served = ", ".join(
        f"{direction.name} ({direction.translator.engine_description})"
        for direction in registry.directions
    )
    try:
        app = make_app(registry, settings)
        return run(app, settings, bound=bound, on_ready=lambda: on_ready(served))
    finally:
        registry.close()


def _load(
    models: list[Path],
    settings: ServerSettings,
    *,
    engine: EngineName,
    compute_type: str,
    plan: tuple[int | None, int | None],
    shortlist: Path | None,
    languages: list[str],
) -> "ModelRegistry":
    from transduce.cli.translate import make_plan
    from transduce.serve.model_registry import load_models

    registry = load_models(
        models,
        settings,
        languages=languages,
        engine=engine,
        compute_type=compute_type,
        plan=make_plan(*plan, compute_type),
        shortlist=shortlist,
    )
    for direction in registry.directions:
        if direction.bundle.languages.missing:
            print_stderr(
                f"WARNING: {direction.path} has no languages, and is served as {direction.name}: "
                f"add --languages SOURCE-TARGET, or run `transduce relabel` once"
            )
    return registry
