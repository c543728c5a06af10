"""The record names what a measurement ran on, the libraries that only some machines have included."""

from jaxgpt.benchmark.machine import environment


def test_optional_libraries_are_recorded_where_they_are_installed(monkeypatch, tmp_path):
    for name in ("torch", "tokamax", "libtpu", "jax_cuda13_plugin", "nvidia_cudnn_cu13"):
        folder = tmp_path / f"{name}-9.8.7.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.8.7\n")
    monkeypatch.syspath_prepend(tmp_path)
    versions = environment()["versions"]
    names = ("torch", "tokamax", "libtpu", "jax-cuda13-plugin", "nvidia-cudnn-cu13")
    assert [versions[name] for name in names] == ["9.8.7"] * 5
    assert versions["jax"] != "9.8.7"
