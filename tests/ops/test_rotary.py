"""Rotary positions depend on distance alone; stretching touches the slow pairs and leaves the quick ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy

from jaxgpt import ModelConfig, RequestError
from jaxgpt.ops.rotary import amplitude, frequencies, rotate, rotation, sinusoidal_table

CONFIG = ModelConfig(position="rope", width=64, heads=2, rope_theta=1000.0)
PAIRINGS = ("half", "interleaved")


def turned(config, x, positions):
    return jax.jit(lambda x, p: rotate(x, rotation(config, p)))(x, positions)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotation_is_multiplication_of_complex_numbers(pairing):
    config = CONFIG.replace(rope_pairing=pairing)
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 32)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3, 4], [7, 0, 100, 3, 9]])
    exact = reference_numpy.rotate(x.astype(np.float64), positions, config)
    np.testing.assert_allclose(turned(config, x, positions), exact, atol=2e-5)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_products_of_rotated_vectors_depend_on_the_distance_alone(pairing):
    config = CONFIG.replace(rope_pairing=pairing)
    q, k = np.random.default_rng(1).standard_normal((2, 1, 4, 1, 32)).astype(np.float32)
    scores = [
        jnp.einsum("bthd,bshd->bts", turned(config, q, np.arange(4) + shift), turned(config, k, np.arange(4) + shift))
        for shift in (0, 11)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
    np.testing.assert_allclose(jnp.linalg.norm(turned(config, q, np.arange(4))), np.linalg.norm(q), rtol=1e-6)


def test_linear_stretching_divides_the_positions():
    stretched = CONFIG.replace(rope_scaling="linear", rope_factor=4.0)
    x = np.random.default_rng(2).standard_normal((1, 3, 1, 32)).astype(np.float32)
    np.testing.assert_allclose(
        turned(stretched, x, np.array([0, 4, 8])), turned(CONFIG, x, np.array([0, 1, 2])), atol=1e-5
    )


@pytest.mark.parametrize("scaling", ["llama3", "yarn"])
def test_quick_pairs_stay_slow_pairs_stretch_and_those_between_lie_between(scaling):
    stretched = CONFIG.replace(
        rope_scaling=scaling, rope_factor=8.0, rope_original_context=1024, rope_low_rotations=2.0,
        rope_high_rotations=20.0,
    )  # fmt: skip
    plain, new = frequencies(CONFIG), frequencies(stretched)
    ratio = new / plain
    turns = 1024 * plain / (2 * np.pi)
    slack = 1.3 if scaling == "yarn" else 1.0  # its bounds are rounded to whole pairs
    np.testing.assert_allclose(ratio[turns > 20 * slack], 1, rtol=1e-6)
    np.testing.assert_allclose(ratio[turns < 2 / slack], 1 / 8, rtol=1e-6)
    between = ratio[(turns < 20 / slack) & (turns > 2 * slack)]
    assert len(between) > 3
    assert ((between > 1 / 8) & (between < 1)).all()
    assert (np.diff(ratio) <= 1e-6).all()


def test_only_yarn_makes_queries_and_keys_longer():
    yarn = CONFIG.replace(rope_scaling="yarn", rope_factor=np.e, rope_original_context=64)
    assert amplitude(CONFIG) == 1
    assert amplitude(yarn) == pytest.approx(1.1)
    assert amplitude(yarn.replace(rope_attention_factor=1.5)) == 1.5
    x = np.random.default_rng(3).standard_normal((1, 1, 1, 32)).astype(np.float32)
    np.testing.assert_allclose(turned(yarn, x, np.array([9])) ** 2 @ np.ones(32), 1.21 * (x**2).sum(), rtol=1e-5)


def test_what_cannot_be_stretched_is_refused():
    with pytest.raises(RequestError, match=r"needs model\.rope_original_context"):
        CONFIG.replace(rope_scaling="yarn", rope_factor=2.0)
    with pytest.raises(RequestError, match="rope_low_rotations 4 is not below"):
        CONFIG.replace(rope_scaling="llama3", rope_factor=2.0, rope_original_context=64, rope_low_rotations=4.0)
    with pytest.raises(RequestError, match=r"with model\.rope_factor 1 stretches nothing"):
        CONFIG.replace(rope_scaling="linear")
    with pytest.raises(RequestError, match=r"each head has 3; make model\.head_size even"):
        CONFIG.replace(head_size=3)


def test_sines_have_the_wavelengths_of_the_paper():
    table = sinusoidal_table(50, 7)
    assert table.shape == (50, 7)
    np.testing.assert_allclose(table[49, 4], np.sin(49 / 10000 ** (4 / 7)), rtol=1e-6)
    np.testing.assert_allclose(table[49, 5], np.cos(49 / 10000 ** (4 / 7)), rtol=1e-6)
