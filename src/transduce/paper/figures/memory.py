"""How much a computation holds at its peak, counted by the tensors that are alive."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Alive(TorchDispatchMode):
    """Sees every operation's results, and keeps no tensor alive by that."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[StorageWeakRef, int] = {}
        self.peak = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        del types
        given = {
            _key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        said = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(said):
            if isinstance(leaf, torch.Tensor) and _key(leaf) not in given:
                self.sizes[_key(leaf)] = leaf.untyped_storage().nbytes()
        self.sizes = {one: size for one, size in self.sizes.items() if not one.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))
        return said


def peak_bytes(compute: Callable[[], object]) -> int:
    """The most bytes that tensors made in `compute` held at once, what autograd keeps included.

    Scratch memory within one operation is not seen.

    >>> peak_bytes(lambda: torch.zeros(256) + torch.zeros(256))
    3072
    """
    with _Alive() as alive:
        compute()
    return alive.peak


def _key(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())
