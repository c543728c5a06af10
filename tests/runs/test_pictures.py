"""A picture that could not be drawn is refused before the work."""

import pytest

from jaxgpt.config import RequestError
from jaxgpt.runs import extras
from jaxgpt.runs.pictures import check_picture


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(extras, "installed_versions", lambda packages: dict.fromkeys(packages, "1"))


def test_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "installed_versions", lambda packages: {})
    with pytest.raises(RequestError, match=r"--plot needs matplotlib, .* pip install 'jaxgpt\[plot\]'"):
        check_picture("--plot", tmp_path / "times.png")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "words"),
    [("times.pdf", r"expected a name that ends in \.png"), ("no/times.png", "in a folder that is there")],
)
def test_a_name_that_does_not_do(tmp_path, name, words):
    with pytest.raises(RequestError, match=words):
        check_picture("--plot", tmp_path / name)
    check_picture("--plot", tmp_path / "times.png")
