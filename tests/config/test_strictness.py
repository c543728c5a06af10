"""A wrong option is refused with one message: what was got, what was expected, what to change."""

import dataclasses
import math
import typing

import numpy as np
import pytest

from jaxgpt.config import ModelConfig, OptimizerConfig, RequestError, RunConfig, TrainConfig, WorkError
from jaxgpt.config.data import DataConfig
from jaxgpt.config.run import ExecutionConfig, MeshConfig


def types_of(cls, field):
    hint = cls.hint(field.name)
    return (hint, *typing.get_args(hint))


FIELDS = [(cls, field) for cls in RunConfig.sections().values() for field in dataclasses.fields(cls)]
NUMBERS = [(cls, field) for cls, field in FIELDS if {int, float} & {*types_of(cls, field)}]


def each(fields):
    names = [f"{cls.section}.{field.name}" for cls, field in fields]
    return pytest.mark.parametrize(("cls", "field"), fields, ids=names)


def refusal(make, *args, **kwargs):
    with pytest.raises(RequestError) as caught:
        make(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 0}, "model.width: expected at least 1, got 0; change model.width"),
        ({"width": 128.0}, "model.width: expected a whole number, got 128.0"),
        ({"width": "128"}, "model.width: expected a whole number, got '128'"),
        ({"width": True}, "model.width: expected a whole number, got True"),
        ({"vocab_size": "many"}, "model.vocab_size: expected a whole number or none, got 'many'"),
        ({"tied_head": 1}, "model.tied_head: expected true or false, got 1"),
        ({"gelu": "exat"}, "model.gelu: expected exact | tanh, got 'exat'; did you mean 'exact'?"),
        ({"gelu": None}, "model.gelu: expected exact | tanh, got None"),
        ({"gelu": np.array(["tanh", "tanh"])}, "model.gelu: expected exact | tanh, got array"),
        ({"residual_dropout": 1.0}, "model.residual_dropout: expected below 1, got 1.0"),
        ({"norm_epsilon": 0.0}, "model.norm_epsilon: expected above 0, got 0.0"),
        ({"norm_epsilon": 10**400}, "model.norm_epsilon: expected a number, got 1000"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(wrong, message):
    assert refusal(ModelConfig, **wrong).startswith(message)


@pytest.mark.parametrize("beyond", [1e-39, 1e-50, 3.5e38, 1e39])
def test_a_number_that_float32_cannot_hold_is_refused(beyond):
    with np.errstate(over="ignore"):
        assert not np.finfo(np.float32).tiny <= np.float32(beyond) <= np.finfo(np.float32).max
    message = refusal(OptimizerConfig, epsilon=beyond)
    assert message.startswith("optimizer.epsilon: expected 0, or 1.2e-38 to 3.4e+38, as devices compute in float32")


def test_a_bound_is_written_out_in_full():
    message = refusal(TrainConfig, seed=2**32)
    assert "at most 4294967295, got 4294967296" in message


@each(NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_takes_a_non_finite_value(cls, field, value):
    assert refusal(cls, **{field.name: value}).startswith(f"{cls.section}.{field.name}: expected a")


@each(NUMBERS)
def test_every_number_has_a_bound_that_holds(cls, field):
    below_all = -1 if int in types_of(cls, field) else -1e-9
    assert "expected a" in refusal(cls, **{field.name: below_all})


@each(FIELDS)
def test_every_field_refuses_a_value_of_another_type(cls, field):
    message = refusal(cls, **{field.name: [["a list"]]})
    assert message.startswith(f"{cls.section}.{field.name}: expected ")
    assert message.endswith("got [['a list']]")


@each(FIELDS)
def test_every_field_is_documented_in_a_sentence(cls, field):
    doc = field.metadata["doc"]
    assert doc[0].isupper()
    assert doc.endswith(".")
    assert len(doc.split()) >= 4


def test_a_whole_number_may_stand_for_a_number():
    assert isinstance(OptimizerConfig(weight_decay=1).weight_decay, float)


def test_a_width_that_the_heads_do_not_divide_names_the_nearest_that_fit():
    message = refusal(ModelConfig, width=130, heads=4)
    assert message == (
        "model.width 130 is not divisible by model.heads 4; use 2 or 5 heads, width 128 or 132, "
        "or a model.head_size of its own"
    )
    for heads, width in ((2, 130), (5, 130), (4, 128), (4, 132)):
        ModelConfig(width=width, heads=heads)


def test_the_advice_for_more_heads_than_features_is_itself_valid():
    assert refusal(ModelConfig, width=4, heads=8).endswith("use 4 heads, width 8, or a model.head_size of its own")
    ModelConfig(width=4, heads=4), ModelConfig(width=8, heads=8)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: OptimizerConfig(learning_rate=1e-4, final_learning_rate=1e-3), "0.001 is above optimizer.learning"),
        (lambda: OptimizerConfig(beta1=1 - 1e-9), "optimizer.beta1 0.999999999 is 1 in float32"),
        (
            lambda: OptimizerConfig(weight_decay=2e4),
            "optimizer.weight_decay 20000 x optimizer.final_learning_rate 0.0001 is 2 or more",
        ),
        (lambda: TrainConfig(batch_size=10, accumulate=4), "use batch size 12 or another split"),
        (lambda: TrainConfig(steps=10, stop_after=11), "train.stop_after 11 is above train.steps 10"),
        (lambda: RunConfig(mesh=MeshConfig(data=5)), "mesh.data 5 does not divide the 12 sequences"),
        (lambda: RunConfig(model={"width": 4}), "RunConfig.model: expected a ModelConfig, got {'width': 4}"),
        (lambda: ModelConfig().replace(heds=2), "model has no field 'heds'; did you mean 'heads'?"),
        (lambda: ExecutionConfig(attention="dens"), "did you mean 'dense'?"),
        (lambda: DataConfig(validation_fraction=1), "data.validation_fraction: expected below 1, got 1.0"),
        (lambda: DataConfig(path=["a", "b"], weights=[1]), "data.weights has 1 numbers for 2 files of data.path"),
        (lambda: DataConfig(path=["a", "b"], weights=[1, 0]), "data.weights: expected above 0, got 0.0"),
        (lambda: DataConfig(path=["a", "b"], weights=["1", 2]), "data.weights: expected numbers with commas between"),
        (lambda: DataConfig(path="a", weights=[1]), "data.weights means nothing with one file"),
        (lambda: DataConfig(path=[]), "data.path: expected text or several or none, got []"),
        (
            lambda: DataConfig(validation_path="b", validation_fraction=0.2),
            "data.validation_fraction 0.2 means nothing with data.validation_path",
        ),
        (
            lambda: RunConfig(model=ModelConfig(family="encoder"), data=DataConfig(pack_documents=True)),
            "data.pack_documents means nothing with model.family encoder",
        ),
    ],
)
def test_combinations_that_cannot_work_say_what_to_change(make, words):
    assert words in refusal(make)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TrainConfig(steps=2**31), "train.steps: expected at most 2147483647, as devices count in int32"),
        (lambda: ModelConfig(width=10**30), "model.width: expected at most 2147483647"),
        (lambda: OptimizerConfig(learning_rate=1e39), "expected 0, or 1.2e-38 to 3.4e+38, as devices compute in"),
        (lambda: OptimizerConfig(epsilon=1e-50), "optimizer.epsilon: expected 0, or 1.2e-38"),
    ],
)
def test_a_number_that_devices_would_take_for_another_is_refused(make, words):
    assert words in refusal(make)
    TrainConfig(steps=2**31 - 1), OptimizerConfig(final_learning_rate=0.0)


def test_configs_are_frozen_and_hashable():
    config = RunConfig(model=ModelConfig(vocab_size=65))
    assert {config: 1}[RunConfig(model=ModelConfig(vocab_size=65))] == 1
    assert config != RunConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.model.width = 3


def test_the_two_kinds_of_failure_carry_their_exit_codes():
    assert (RequestError("x").exit_code, WorkError("x").exit_code) == (2, 1)
    assert isinstance(RequestError("x"), ValueError)
    assert isinstance(WorkError("x"), RuntimeError)
