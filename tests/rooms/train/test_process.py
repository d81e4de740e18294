"""Where a run computes."""

import sys

import pytest
import torch

from transduce.train.process import computing, find_device, hold_memory


def test_auto_is_a_device_of_this_machine():
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_a_device_can_be_named():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["toaster", "cuda:97"])
def test_a_device_that_is_not_here_is_refused_in_one_line(name: str):
    with pytest.raises(ValueError, match=rf"^train\.device '{name}' is not here .*\"auto\"$"):
        find_device(name)


def test_threads_are_put_back():
    before = torch.get_num_threads()

    with computing(device="cpu", threads=before + 2):
        inside = torch.get_num_threads()

    assert (inside, torch.get_num_threads()) == (before + 2, before)


def test_threads_are_put_back_after_a_failure():
    before = torch.get_num_threads()

    with pytest.raises(ZeroDivisionError), computing(device="cpu", threads=before + 2):
        raise ZeroDivisionError

    assert torch.get_num_threads() == before


def test_where_the_c_library_cannot_hold_memory_training_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")

    assert not hold_memory()
