"""Vectors of other widths, and tiles, give the same results, in adequate time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from tests.conftest import Corpus
from tests.parity import test_cpp_kernels, test_native_engine

from transduce.inference.engines.native_engine import NativeEngine
from transduce.inference.engines.native_library import load_search
from transduce.io import compiler
from transduce.io.machine import processor_features
from transduce.model.cpp_library import load_kernels
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis

FEATURES = processor_features().split()
pytestmark = pytest.mark.skipif(
    load_kernels().library is None or "sse2" not in FEATURES, reason="no compiler, or not x86"
)
needs_avx512 = pytest.mark.skipif(
    "avx512f" not in FEATURES, reason="the processor's own kernels have these vectors"
)

# GCC avoids chains of fused multiplications and additions for some of AMD's processors.
AVX2 = ("-march=haswell", "-mtune=znver2")
WIDTHS = [
    pytest.param(AVX2, id="AVX2", marks=needs_avx512),
    pytest.param(("-march=x86-64",), id="SSE"),
]
INT8 = [
    pytest.param(AVX2, b"AVX2", id="AVX2", marks=needs_avx512),
    pytest.param(
        ("-march=haswell", "-mavxvnni"),
        b"VNNI",
        id="AVX-VNNI",
        marks=pytest.mark.skipif("avx_vnni" not in FEATURES, reason="no AVX-VNNI"),
    ),
]


@contextmanager
def compiled_with(*flags: str) -> Iterator[None]:
    """Replace the libraries of this process by those of another processor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_FLAGS", (*compiler._FLAGS, *flags))
        load_kernels.cache_clear()
        load_search.cache_clear()
        try:
            yield
        finally:
            load_kernels.cache_clear()
            load_search.cache_clear()


def has_tiles() -> bool:
    library = load_search().library
    return library is not None and library.int8_instructions() == b"AMX"


@pytest.mark.parametrize("flags", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_kernels_of_training(dtype: torch.dtype, flags: tuple[str, ...]):
    with compiled_with(*flags):
        test_cpp_kernels.test_attention(dtype, causal=True, depth=16)
        test_cpp_kernels.test_attention_to_a_memory(dtype)
        test_cpp_kernels.test_the_loss_of_vocabularies_of_any_size(17, dtype)
        test_cpp_kernels.test_dropout_has_its_probability_and_one_mask_for_both_directions(dtype)


@pytest.mark.parametrize("flags", WIDTHS)
@pytest.mark.parametrize("beam", [1, 4])
def test_native_search(beam: int, flags: tuple[str, ...], corpus: Corpus):
    with compiled_with(*flags):
        fields = {"norm": "pre", "activation": "gelu", "output_bias": True}
        test_native_engine.test_it_finds_what_torch_finds(fields, beam, corpus)
        test_native_engine.test_a_translation_does_not_depend_on_its_batch(False, beam, corpus)


@pytest.mark.parametrize(("flags", "instructions"), INT8)
def test_int8(flags: tuple[str, ...], instructions: bytes, corpus: Corpus):
    with compiled_with(*flags):
        library = load_search().library
        assert library is not None
        assert library.int8_instructions() == instructions
        test_native_engine.test_int8_is_near(corpus)
        test_native_engine.test_sums_of_int8_are_exact(corpus)
        test_native_engine.test_a_translation_does_not_depend_on_its_batch(True, 4, corpus)


@pytest.mark.skipif(not has_tiles(), reason="no tiles (AMX)")
@pytest.mark.parametrize("shortlist", [False, True])
@pytest.mark.parametrize("beam", [1, 5])
def test_tiles_change_nothing(beam: int, shortlist: bool, corpus: Corpus):
    bundle = test_native_engine.make_bundle(corpus, d_model=192, d_ff=320, heads=4)
    pieces = test_native_engine.random_shortlist(bundle) if shortlist else None
    batch = test_native_engine.requests(75, corpus.tokenizer.vocab_size)

    def translations() -> list[list[Hypothesis]]:
        engine = NativeEngine(bundle.weights.to_numpy(), int8=True, shortlist=pieces)
        return engine.search(batch, SearchConfig(beam=beam))

    with compiled_with("-mno-amx-int8"):
        assert not has_tiles()
        expected = translations()

    assert translations() == expected


@needs_avx512
def test_vectors_are_no_wider_than_registers(corpus: Corpus):
    """GCC's code for wider ones took five to ten times as long."""
    bundle = test_native_engine.make_bundle(corpus, d_model=256, d_ff=512)
    requests = test_native_engine.requests(32, corpus.tokenizer.vocab_size)

    def seconds() -> float:
        engine = NativeEngine(bundle.weights.to_numpy())
        times: list[float] = []
        for _ in range(5):
            start = time.perf_counter()
            engine.search(requests, SearchConfig(beam=1))
            times.append(time.perf_counter() - start)
        return min(times)

    wide = seconds()
    with compiled_with(*AVX2):
        narrow = seconds()

    assert narrow < 4 * wide
