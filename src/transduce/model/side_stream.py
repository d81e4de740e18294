"""GPU work that nothing waits for soon, beside the kernels that the next ones wait for.

In a backward pass the gradient of a weight is read at the end alone. Computed on a second stream,
its matrix product runs while the main stream's kernels wait for memory, or for one another.
"""

from collections import deque
from collections.abc import Callable
from functools import cache, partial
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

MAX_RUNNING = 4
"""Computations beside the main stream; more would keep more activations."""

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class SideStream:
    """A second stream of a GPU; on a CPU everything is computed at once."""

    def __init__(self, device: torch.device) -> None:
        """Start nothing yet."""
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._running: deque[tuple[torch.cuda.Event, Callable[[], object]]] = deque()

    def run(
        self,
        compute: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Start a computation after what the main stream has been given so far.

        Its result may be read after `join`; nothing may write to its arguments before.
        """
        call = partial(compute, *arguments, **named)
        if self._stream is None:
            return call()
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            result = call()
            event = torch.cuda.Event()
            event.record()
        # The call holds its arguments: the main stream would use their memory again.
        self._running.append((event, call))
        self.wait(running=MAX_RUNNING)
        return result

    def wait(self, *, running: int) -> None:
        """Let the main stream wait until at most the `running` latest computations remain."""
        while len(self._running) > running:
            torch.cuda.current_stream().wait_event(self._running.popleft()[0])

    def join(self) -> None:
        """Let the main stream wait for all computations."""
        self.wait(running=0)


@cache
def side_stream(device: torch.device) -> SideStream:
    """Return the second stream of a device."""
    return SideStream(device)


def weight_gradients(grad: Tensor, x: Tensor, *, has_bias: bool) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of W and b from that of x Wᵀ + b, [rows, outputs]."""
    return grad.T @ x, grad.sum(0) if has_bias else None
