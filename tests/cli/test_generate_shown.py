"""The parts of `jaxgpt generate` that show answers and measure, and where compiled programs are kept."""

import json

import jax
import numpy as np
import pytest

from jaxgpt.cli import compile_cache
from jaxgpt.cli.generate.clock import Clock
from jaxgpt.cli.generate.shown import Answer, Document, Lines, Texts
from jaxgpt.generation.requests import GenerationRequest
from jaxgpt.generation.rows import Piece, Rows
from jaxgpt.generation.speculative import Drafts


def answer(text):
    return Answer(None, "a", text, [0])


def test_answers_are_shown_in_order_each_once_those_before_it_are_there(capsys):
    with Texts() as shown:
        shown.complete(1, answer("second"))
        assert capsys.readouterr().out == ""
        shown.complete(0, answer("first"))
        assert capsys.readouterr().out == "first\n---\nsecond"
    assert capsys.readouterr().out == "\n"


def test_json_has_an_object_for_each_answer_and_no_field_that_is_not_there(capsys):
    with Lines() as lines, Document(step=3) as document:
        for shown in (lines, document):
            shown.complete(0, answer("über"))
        assert capsys.readouterr().out == '{"prompt": "a", "text": "über", "ids": [0]}\n'
    assert json.loads(capsys.readouterr().out) == {
        "step": 3,
        "results": [{"prompt": "a", "text": "über", "ids": [0]}],
    }


@pytest.mark.parametrize(("error", "end"), [(KeyboardInterrupt, "\n"), (BrokenPipeError, "")])
def test_a_text_that_breaks_off_ends_its_line_where_somebody_reads(capsys, error, end):
    def break_off():
        with Texts() as shown:
            shown.complete(0, answer("text"))
            raise error

    with pytest.raises(error):
        break_off()
    assert capsys.readouterr().out == "text" + end


def test_compiling_is_counted_once_and_in_no_phase(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    clock = Clock(100.0)
    trace = "/jax/core/compile/jaxpr_trace_duration"
    with clock.within(clock.reading):
        now[0] = 104
        clock._hear(trace, 1.0)
        clock._hear("/jax/something/else", 3.0)
        now[0] = 106
        clock._hear(trace, 5.0)  # from 101 to 106: the first was inside
        now[0] = 107
    assert clock.compiling == 5
    assert clock.reading.seconds == 2


class Batch(list):
    """The pieces of a batch, and the rows that they are of."""

    def __init__(self, pieces, rows):
        super().__init__(pieces)
        self.rows = rows


def test_rows_that_fill_up_a_batch_count_as_nothing():
    rows = Rows([[0, 1], [2], [2]], GenerationRequest(max_new_tokens=3))
    rows.count_drafts(Drafts(np.array([4, 8, 8]), np.array([1, 2, 2])))
    pieces = [Piece(row, [5, 6, 7], [], "length") for row in range(3)]
    clock = Clock(0.0)
    assert list(clock.watched(Batch(pieces, rows), read=3, rows=2)) == pieces[:2]
    assert "; new: 6 tokens, " in clock.lines()[0]
    assert clock.lines()[0].endswith("; lookup: 25% of 12 drafted tokens kept")


def test_a_folder_for_compiled_programs_is_made_in_the_user_s_cache(monkeypatch, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        compile_cache.keep_compiled_programs()
        assert jax.config.jax_compilation_cache_dir == before  # JAX_COMPILATION_CACHE_DIR comes first
        jax.config.update("jax_compilation_cache_dir", None)
        compile_cache.keep_compiled_programs()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "jaxgpt" / "compiled")
        assert (tmp_path / "jaxgpt" / "compiled").is_dir()
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_a_folder_that_cannot_be_written_is_said_once_and_gone_without(monkeypatch, tmp_path, capsys):
    before = jax.config.jax_compilation_cache_dir
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        compile_cache.keep_compiled_programs()
        assert jax.config.jax_compilation_cache_dir is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert capsys.readouterr().err == (
        f"jaxgpt: warning: compiled programs are not kept: {tmp_path}/file/jaxgpt/compiled: Not a directory; name "
        "another folder with JAX_COMPILATION_CACHE_DIR\n"
    )


@pytest.mark.parametrize("named", ["", "relative/folder", None])
def test_without_an_absolute_xdg_cache_home_the_cache_is_in_the_home_folder(monkeypatch, tmp_path, named):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert compile_cache.user_cache() == tmp_path / ".cache"
