"""One thread for a little, one batch a thread for much."""

import pytest
import torch

from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines import torch_engine
from transduce.inference.engines.parallel import run_in_threads, single_thread
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import Request, SearchConfig

pytestmark = pytest.mark.usefixtures("two_threads")


def test_threads_are_put_back_after_a_failure():
    with pytest.raises(ZeroDivisionError), single_thread():
        raise ZeroDivisionError

    assert torch.get_num_threads() == 2


def test_several_jobs_have_one_thread_each():
    assert run_in_threads([torch.get_num_threads] * 3) == [1, 1, 1]
    assert torch.get_num_threads() == 2


def test_a_job_alone_has_all_threads():
    assert run_in_threads([torch.get_num_threads]) == [2]


@pytest.mark.parametrize(("worth", "threads"), [(1 << 27, {1}), (0, {2})])
def test_a_sentence_is_computed_by_as_many_threads_as_it_is_worth(
    worth: int,
    threads: set[int],
    untrained: Transformer,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
):
    seen: set[int] = set()
    engine = TorchEngine(untrained, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")
    monkeypatch.setattr(torch_engine, "_MIN_WORK_FOR_THREADS", worth)
    untrained.encoder[0].register_forward_hook(lambda *_: seen.add(torch.get_num_threads()))

    engine.search([Request((5, 7))], SearchConfig(beam=2, extra=3))

    assert seen == threads
    assert torch.get_num_threads() == 2
