"""A package to compare with that is not there: a skip by default, a failure where it is required."""

import pytest
from peering import VARIABLE, peer


def test_a_missing_peer_is_skipped(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception):
        peer("no_such_package")


def test_a_missing_peer_fails_where_it_is_required(monkeypatch):
    monkeypatch.setenv(VARIABLE, "required")
    with pytest.raises(ModuleNotFoundError):
        peer("no_such_package")


def test_another_value_of_the_variable_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "yes")
    with pytest.raises(AssertionError, match="JAXGPT_PEERS is 'yes'; expected 'required'"):
        peer("json")
