"""argv → one call of a command, and what its end means to a shell.

A person's mistake is one line on stderr and exit code 2, a run that fails is one line and 1, Ctrl-C
is 130 and SIGTERM 143; a traceback is a bug of ours.
"""

import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, talk

_FAILURES = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.ENOMEM,
)  # of the machine, not of the input


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` asks for and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    for name in ("stdout", "stderr"):  # closed by the caller, as a daemon's are
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  open to the end
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(args=words, prog_name="transduce", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        return _fail(_usage(error), code=2)
    except ValueError as error:
        return _fail(str(error), code=2)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}", code=1 if error.errno in _FAILURES else 2)
    except (FloatingPointError, MemoryError) as error:
        return _fail(str(error) or "out of memory: lower batch.micro_tokens", code=1)
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which may not be imported
            raise
        return _fail("the device is out of memory: lower batch.micro_tokens", code=1)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    finally:
        signal.signal(signal.SIGTERM, before)
        _flush()


def _version(wanted: bool) -> bool:
    if wanted:
        from transduce import __version__

        typer.echo(f"transduce {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which it is.")
    ] = False,
) -> None:
    """Train, look into, evaluate and ship your own encoder-decoder Transformer.

    From two text files to a translator:

    \b
      transduce train --source corpus.en --target corpus.de --out runs/mine
      transduce translate runs/mine < in.txt > out.txt
    """


def _fail(message: str, *, code: int) -> int:
    talk(f"transduce: {' '.join(message.split())}")
    return code


def _usage(error: typer.TyperException) -> str:
    """A usage error, and where to read on."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "transduce")
    return f"{error.format_message().rstrip('.')} (try `{command} --help`)"


def _terminate(number: int, frame: object) -> None:
    """Leave as if by an exception, so that files are left whole or not at all."""
    raise SystemExit(128 + number)


def _flush() -> None:
    """Write out what is left; whoever stopped listening is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
