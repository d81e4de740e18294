"""The address of a server: taken before anything is loaded, and said as a browser wants it."""

import socket

import pytest

from transduce.serve.server import address_of, bind
from transduce.serve.settings import Settings


def test_a_free_port_is_taken_and_named() -> None:
    with bind(Settings(port=0)) as taken:
        port = taken.getsockname()[1]

        assert address_of(taken) == f"http://127.0.0.1:{port}/"


def test_an_address_of_every_machine_is_named_as_this_one() -> None:
    with bind(Settings(host="0.0.0.0", port=0)) as taken:
        assert address_of(taken).startswith("http://localhost:")


def test_a_port_that_is_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(ValueError, match=f"port {port} of 127.0.0.1 is in use"):
            bind(Settings(port=port))


def test_an_address_that_is_not_here_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no address 'no such host'"):
        bind(Settings(host="no such host", port=0))
