"""A translator in a forked or spawned process translates as it does in its own, and ends."""

import pickle
import subprocess
import sys

import pytest
from tests.conftest import Run

from transduce.inference.engines.native_library import load_search
from transduce.inference.translator import Translator
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

NATIVE = pytest.param(
    "native",
    marks=pytest.mark.skipif(
        load_search().library is None, reason=f"no native engine: {load_search().reason}"
    ),
)

FORK = """
import os, sys
from transduce import Translator

folder, engine, load_again = sys.argv[1:]
translator = Translator.load(folder, engine=engine)
lines = ["1 2 3", "4 0", "2 2 1"] * 40
translations = translator.translate(lines)
child = os.fork()
if not child:
    if load_again == "yes":
        translator = Translator.load(folder, engine=engine)
    sys.exit(0 if translator.translate(lines) == translations else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

FORK_NATIVE = """
import os, sys
from transduce import Translator
from transduce.inference.engines import native_engine

native_engine.available_threads = lambda: 4
counts = []
search = native_engine.NativeModel.search
native_engine.NativeModel.search = lambda *parts, threads, **options: (
    counts.append(threads) or search(*parts, threads=threads, **options)
)
translator = Translator.load(sys.argv[1], engine="native")
child = os.fork()
translator.translate("1 2 3")
if not child:
    sys.exit(0 if counts == [1] else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if counts == [4] else 4)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.parametrize("load_again", ["yes", "no"])
@pytest.mark.parametrize("engine", ["torch", "ctranslate2", NATIVE])
def test_a_forked_child_translates_the_same_and_exits(engine: str, load_again: str, run: Run):
    command = [sys.executable, "-c", FORK, str(run.folder), engine, load_again]

    done = subprocess.run(command, capture_output=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.skipif(load_search().library is None, reason="no native engine")
def test_a_forked_child_computes_with_one_thread(run: Run):
    command = [sys.executable, "-c", FORK_NATIVE, str(run.folder)]

    done = subprocess.run(command, capture_output=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_pickled_translator_is_loaded_again_from_its_folder(
    engine: str, run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(run.folder.parent)
    translator = Translator.load(run.folder.name, engine=engine)
    pickled = pickle.dumps(translator)
    monkeypatch.chdir("/")

    other = pickle.loads(pickled)

    assert len(pickled) < 2000
    assert other.translate(["1 2 3"]) == translator.translate(["1 2 3"])
    assert other.engine_description == translator.engine_description


def test_a_translator_of_a_model_in_memory_is_not_pickled(tiny: Transformer, run: Run):
    loaded = Translator.load(run.folder, engine="torch")
    translator = Translator.from_parts(tiny, loaded._tokenizer, search=SearchConfig())

    with pytest.raises(TypeError, match=r"made by Translator\.load can be pickled"):
        pickle.dumps(translator)
