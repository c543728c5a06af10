"""The steps of the lesson."""

import pytest


@pytest.fixture(scope="session")
def steps(lesson):
    """{(part, step): step}"""
    return {(part.name, step.name): step for part in lesson.parts for step in part.steps}
