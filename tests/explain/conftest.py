"""The lesson, computed once."""

import pytest

from jaxgpt.explain.lesson import run_lesson


@pytest.fixture(scope="session")
def lesson():
    return run_lesson()


@pytest.fixture(scope="session")
def steps(lesson):
    """{(part, step): step}"""
    return {(part.name, step.name): step for part in lesson.parts for step in part.steps}
