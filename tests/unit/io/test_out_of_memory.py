"""Memory that ran out is recognised whatever library reports it, and nothing else is."""

import pytest
import torch

from transduce.io.machine import out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate"
                     " memory: you tried to allocate 1000000000000 bytes."),
        RuntimeError("could not create a primitive"),
        RuntimeError("mkl_malloc: failed to allocate memory"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)  # fmt: skip
def test_memory_that_runs_out_is_known_by_what_is_said(error: Exception):
    assert out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
        RuntimeError("CUDA error: device-side assert triggered"),
        ValueError("out of memory"),
        KeyboardInterrupt(),
        SystemExit(143),
    ],
)
def test_no_other_error_is_taken_for_it(error: BaseException):
    assert not out_of_memory(error)


def test_torch_says_what_is_looked_for():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)

    assert out_of_memory(caught.value)
