"""The address of a server: bound before anything is loaded, and said as a browser wants it."""

import socket

import pytest

from transduce.serve.server import bind, url_of
from transduce.serve.settings import ServerSettings


def test_a_free_port_is_taken_and_named() -> None:
    with bind(ServerSettings(port=0)) as bound:
        port = bound.getsockname()[1]

        assert url_of(bound) == f"http://127.0.0.1:{port}/"


def test_an_url_of_every_machine_is_named_as_this_one() -> None:
    with bind(ServerSettings(host="0.0.0.0", port=0)) as bound:
        assert url_of(bound).startswith("http://localhost:")


def test_a_port_that_is_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(ValueError, match=f"port {port} of 127.0.0.1 is in use"):
            bind(ServerSettings(port=port))


def test_an_address_that_is_not_here_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot resolve the address 'no such host'"):
        bind(ServerSettings(host="no such host", port=0))
