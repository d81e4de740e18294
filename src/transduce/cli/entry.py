"""Run a command of the command line and map its outcome to an exit code.

User errors print one line and exit with 2, failing runs one line and 1; Ctrl-C exits with 130 and
SIGTERM with 143. A traceback is a bug in transduce.
"""

import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Exit, Option, TyperException, echo

from transduce.cli.app import app, print_stderr
from transduce.io.machine import TORCH_HINT, out_of_memory

_COMPILER_LOG = logging.getLogger("transduce.io.compiler")  # by name: importing it takes longer

_LESS_MEMORY = {"train": "lower batch.micro_tokens", "translate": "lower --batch-tokens or --beam"}
"""How a command needs less memory."""

# How pydantic, which typer checks values by, words its errors.
_VALIDATION_WORDING = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "not a whole number",
    "Input should be a valid number, unable to parse string as a number": "not a number",
}
# Errors of the machine rather than of the input: exit code 1.
_MACHINE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; without `argv`, that of the process's arguments."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller closed it, as for a daemon
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  open until exit
    previous_handler = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    run = partial(app, args=arguments, prog_name="transduce", standalone_mode=False)
    if sys.stderr.isatty() and not _COMPILER_LOG.handlers:  # scripts do not wonder at a pause
        _COMPILER_LOG.addHandler(_StderrHandler())
        _COMPILER_LOG.setLevel(logging.INFO)
    try:
        return exit_code(run, command=arguments[0]) or exit_code(_flush, command=arguments[0])
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
        with suppress(OSError):
            _flush()


def exit_code(run: Callable[[], object], *, command: str) -> int:
    """Run a part of a command; print an error in one line and return its exit code.

    The result is the exit code if it is a number.
    """
    try:
        code = run()
        return code if isinstance(code, int) else 0
    except TyperException as error:
        return _fail(_usage_error(error), code=2)
    except ValueError as error:
        return _fail(str(error), code=2)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        return _fail(f"transduce {command} needs PyTorch: {TORCH_HINT}", code=2)
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        code = 1 if error.errno in _MACHINE_ERRORS else 2
        return _fail(f"{file}{error.strerror or error}", code=code)
    except FloatingPointError as error:
        return _fail(str(error), code=1)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        remedy = _LESS_MEMORY.get(command, "free memory, or raise this process's limit")
        own_message = isinstance(error, MemoryError) and str(error)
        return _fail(own_message or f"out of memory: {remedy}", code=1)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1


def _version(requested: bool) -> bool:
    if requested:
        from transduce import __version__

        echo(f"transduce {__version__}")
        raise Exit
    return requested


@app.callback()
def _root(
    version: Annotated[
        bool,
        Option("--version", callback=_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Train, inspect, evaluate and deploy your own encoder-decoder Transformer.

    From two text files to a translator:

    \b
      transduce train --source corpus.en --target corpus.de --out runs/mine
      transduce translate runs/mine < in.txt > out.txt
    """


def _fail(message: str, *, code: int) -> int:
    print_stderr(f"transduce: {' '.join(message.split())}")
    return code


def _usage_error(error: TyperException) -> str:
    """The message of a usage error with a pointer to the command's help."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "transduce")
    message = error.format_message().rstrip(".")
    for wording, plain in _VALIDATION_WORDING.items():
        message = message.replace(wording, plain)
    return f"{message} (try `{command} --help`)"


class _StderrHandler(logging.Handler):
    """Prints messages to stderr, also while a live display has replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        print_stderr(record.getMessage())


def _exit_on_signal(number: int, frame: object) -> None:
    """Exit by an exception, so that `finally` blocks clean up half-written files."""
    raise SystemExit(128 + number)


def _flush() -> None:
    """Flush stdout; a reader that closed the pipe is not an error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        if not isinstance(error, BrokenPipeError):
            error.filename = "stdout"
            raise
