"""How quickly this machine multiplies matrices: the best of several products of 2,048 cubed."""

import json
import time

import torch

SIDE, TIMES = 2048, 12


def main() -> None:
    """Print GFLOP/s in fp32 on all threads."""
    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    out = a @ b
    seconds: list[float] = []
    for _ in range(TIMES):
        began = time.perf_counter()
        torch.mm(a, b, out=out)
        seconds.append(time.perf_counter() - began)
    gflops = 2e-9 * SIDE**3 / min(seconds)
    print(json.dumps({"gflops": gflops, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
