"""Choosing ports."""

import pytest

from tentalis.platform.errors import PortTakenError
from tentalis.platform.ports import choose_port, is_free


def choose(usual: int, *, was_asked_for: bool) -> int:
    return choose_port(host="127.0.0.1", usual=usual, was_asked_for=was_asked_for, variable="TENTALIS_WEB_PORT")


def test_a_taken_usual_port_is_replaced_by_a_free_one(taken_port: int) -> None:
    chosen = choose(taken_port, was_asked_for=False)
    assert chosen != taken_port
    assert is_free("127.0.0.1", chosen)


def test_a_taken_port_somebody_asked_for_is_an_error(taken_port: int) -> None:
    with pytest.raises(PortTakenError, match=f"TENTALIS_WEB_PORT: port {taken_port} on 127.0.0.1 is taken"):
        choose(taken_port, was_asked_for=True)


def test_a_free_usual_port_is_kept(environ: dict[str, str]) -> None:
    port = int(environ["TENTALIS_WEB_PORT"])
    assert choose(port, was_asked_for=False) == port
