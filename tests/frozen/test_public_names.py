"""What other programs may rely on. A change here is a change for them: say so in the version."""

import inspect
import subprocess
import sys

import transduce

NAMES = {
    "Bundle",
    "ModelConfig",
    "Provenance",
    "Recipe",
    "Score",
    "SearchConfig",
    "Tokenizer",
    "Transformer",
    "Translation",
    "Translator",
    "__version__",
    "load_recipe",
    "run_recipe",
}


def test_the_public_names_are_these():
    assert set(transduce.__all__) == NAMES
    assert set(dir(transduce)) == NAMES


def test_every_public_name_is_there():
    assert all(getattr(transduce, name) is not None for name in NAMES)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(transduce, "translator")


def test_importing_the_package_brings_no_torch():
    program = "import sys, transduce; print('torch' in sys.modules, 'numpy' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert result.stdout.split() == [b"False", b"False"]


def test_public_functions_document_their_parameters():
    missing: dict[str, list[str]] = {}
    for name in NAMES - {"__version__"}:
        value = getattr(transduce, name)
        functions = vars(value) if inspect.isclass(value) else {"": value}
        for attribute, member in functions.items():
            function = getattr(member, "__func__", member)
            if attribute.startswith("_") or not inspect.isfunction(function):
                continue
            text = inspect.getdoc(function) or ""
            parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
            if undocumented := sorted(
                parameter for parameter in parameters if parameter not in text
            ):
                missing[f"{name}.{attribute}"] = undocumented

    assert not missing
