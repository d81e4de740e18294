"""The command line: one module per command.

stdout carries data, stderr everything else; only this package prints and exits. Commands import the
rest of transduce when they are called, so that `--help` does not wait for torch.
"""

from transduce.cli import (
    adapt,
    alternatives,
    augment,
    average,
    calibrate,
    check,
    compare,
    corpus,
    demo,
    distill,
    doctor,
    evaluate,
    export,
    import_,
    memory,
    paper,
    prepare,
    relabel,
    score,
    serve,
    train,
    translate,
    view,
)
from transduce.cli.app import app
from transduce.cli.entry import main

__all__ = ["main"]

_HELP_ORDER = (
    *(demo.demo, check.check, prepare.prepare, train.train, average.average),
    *(adapt.adapt, distill.distill, augment.augment, train.tune),
    *(translate.translate, alternatives.alternatives, score.score, evaluate.evaluate),
    *(compare.compare, calibrate.calibrate, serve.serve, view.view, export.export),
    *(import_.import_, relabel.relabel, doctor.doctor),
)
app.registered_commands.sort(key=lambda command: _HELP_ORDER.index(command.callback))
app.add_typer(corpus.corpus)
app.add_typer(memory.memory)
app.add_typer(paper.paper)
