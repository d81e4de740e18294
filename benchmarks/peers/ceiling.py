"""Speed of this machine's matrix products: the fastest of several products of 2,048 cubed.

PYTHON ceiling.py [float32|bfloat16]
"""

import json
import sys
import time

import torch

SIDE, TIMES = 2048, 12
DTYPES = (torch.float32, torch.bfloat16)


def main() -> None:
    """Print GFLOP/s on all threads, in float32 or the given precision."""
    bfloat16 = sys.argv[1:] == ["bfloat16"]
    a, b = (torch.randn(SIDE, SIDE, dtype=DTYPES[bfloat16]) for _ in range(2))
    out = a @ b
    seconds: list[float] = []
    for _ in range(TIMES):
        started = time.perf_counter()
        torch.mm(a, b, out=out)
        seconds.append(time.perf_counter() - started)
    gflops = 2e-9 * SIDE**3 / min(seconds)
    print(json.dumps({"gflops": gflops, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
