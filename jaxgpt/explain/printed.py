"""The course's printed numbers, with as many digits as it prints, and the six of them that are misprints.

Each row is filed under its step (the trace's name where the model has one) and its label; the numbers stay text,
because the number of digits says how exactly each was meant.
"""

from __future__ import annotations

from typing import NamedTuple

_LIKE_LN1 = "1.2206 0.3715 -1.5390 -0.0531"
_LIKE_0 = "0.5000 0.3000 -0.1500 0.2000"

PRINTED_ROWS: dict[str, dict[str, str]] = {
    "token_embedding": {
        "A you@0": "0.20 -0.10 0.70 0.30",
        "A like@1": "0.60 0.30 -0.20 0.10",
        "B we@0": "-0.70 0.40 0.30 0.60",
        "B like@1": "0.60 0.30 -0.20 0.10",
    },
    "position_embedding": {"position 0": "0.05 0.10 -0.05 0.00", "position 1": "-0.10 0.00 0.05 0.10"},
    "residual_0": {
        "A you@0": "0.25 0.00 0.65 0.30",
        "A like@1": _LIKE_0,
        "B we@0": "-0.65 0.50 0.25 0.60",
        "B like@1": _LIKE_0,
    },
    "same_token": {"like@0": "0.65 0.40 -0.25 0.10", "like@1": "0.50 0.30 -0.15 0.20"},
    "blocks_0/ln1": {
        "A you@0": "-0.2156 -1.2939 1.5095 0.0000",
        "A like@1": _LIKE_LN1,
        "B we@0": "-1.6731 0.6591 0.1521 0.8619",
        "B like@1": _LIKE_LN1,
    },
    "blocks_0/attention/q": {
        "A you@0 head 1": "-0.2156 -1.2939",
        "A you@0 head 2": "1.5095 0.0000",
        "A like@1 head 1": "1.2206 0.3715",
        "A like@1 head 2": "-1.5390 -0.0531",
    },
    "blocks_0/attention/scores": {
        "A like@1 head 1": "-0.5260 1.1511",
        "A like@1 head 2": "-1.6427 1.6768",
        "B like@1 head 1": "-1.2709 1.1511",
        "B like@1 head 2": "-0.1979 1.6768",
    },
    "blocks_0/attention/weights": {
        "A like@1 head 1": "0.1575 0.8425",
        "A like@1 head 2": "0.0349 0.9651",
        "B like@1 head 1": "0.0815 0.9185",
        "B like@1 head 2": "0.1330 0.8670",
    },
    "blocks_0/attention/heads": {"A like@1 head 1": "0.9944 0.1092", "A like@1 head 2": "-1.4326 -0.0512"},
    "blocks_0/attention/update": {
        "A like@1": "0.9944 0.1092 -1.4326 -0.0512",
        "B like@1": "0.9847 0.3949 -1.3141 0.0686",
    },
    "blocks_0/residual_after_attention": {
        "A like@1": "1.4944 0.4092 -1.5826 0.1488",
        "B like@1": "1.4847 0.6949 -1.4641 0.2686",
    },
    "blocks_0/ln2": {"A like@1": "1.2476 0.2644 -1.5404 0.0284", "B like@1": "1.1475 0.4158 -1.5843 0.0209"},
    "blocks_0/ffn/pre": {"A like@1": "1.2476 0.2644 -1.5404 0.0284"},
    "blocks_0/ffn/hidden": {"A like@1": "1.1152 0.1596 -0.0952 0.0144"},
    "blocks_0/ffn/update": {"A like@1": "0.2788 0.0399 -0.0238 0.0036", "B like@1": "0.2508 0.0687 -0.0224 0.0027"},
    "blocks_0/residual_after_ffn": {
        "A like@1": "1.7732 0.4492 -1.6064 0.1524",
        "B like@1": "1.7356 0.7637 -1.4865 0.2713",
    },
    "final_hidden": {"A like@1": "1.3128 0.2134 -1.4933 -0.0330", "B like@1": "1.2100 0.3787 -1.5462 -0.0425"},
    "logits": {
        "A like@1": "1.1128 -2.7390 -1.5262 2.1336 1.7397",
        "B like@1": "1.0100 -2.6987 -1.5887 2.6821 1.9674",
    },
    "probabilities": {
        "A like@1": "0.1742 0.0037 0.0124 0.4835 0.3261",
        "B like@1": "0.1108 0.0027 0.0082 0.5897 0.2886",
    },
    "gelu": {"GELU(x)": "-0.159 0 0.841 1.955"},
    "mixing": {"W1[1,0] = 0": "1 0.841345 0.210336", "W1[1,0] = 1": "3 2.995950 0.748988"},
    "layer_norm_statistics": {"x": "2.5 1.25 1.118", "100x + 1000": "1250 12500"},
    "layer_norm": {"x": "-1.342 -0.447 0.447 1.342", "100x + 1000": "-1.342 -0.447 0.447 1.342"},
    "causal_mask": {"t1": "1 0 0 0", "t2": "1 1 0 0", "t3": "1 1 1 0", "t4": "1 1 1 1"},
    "scalar_residual": {"x + 0.1x": "0.01 0.011 1.1"},
    "gpt2_parameters": {"sum": "124,439,808"},
}


class Misprint(NamedTuple):
    """A printed number that is not the rounded exact one.

    Attributes:
        exact: The exact value, from a float64 computation.
        reason: Where the printed digits come from.
    """

    exact: float
    reason: str


_FROM_UPDATE = "4 x {}: four times the printed, already rounded FFN update, not the activation itself"

MISPRINTS: dict[tuple[str, str, int], Misprint] = {
    ("blocks_0/ffn/hidden", "A like@1", 0): Misprint(1.115263589, _FROM_UPDATE.format("0.2788")),
    ("blocks_0/ffn/hidden", "A like@1", 1): Misprint(0.159740112, _FROM_UPDATE.format("0.0399")),
    ("blocks_0/ffn/hidden", "A like@1", 2): Misprint(-0.095095516, _FROM_UPDATE.format("-0.0238")),
    ("blocks_0/ffn/hidden", "A like@1", 3): Misprint(0.014514373, _FROM_UPDATE.format("0.0036")),
    ("probabilities", "B like@1", 4): Misprint(
        0.288548787, "the softmax of the printed, already rounded logits is 0.288565"
    ),
    ("gelu", "GELU(x)", 3): Misprint(1.954499736, "1.9545 rounded a second time; in one rounding it is 1.954"),
}


def printed_row(step: str, label: str) -> tuple[str, ...]:
    """Return what the course prints for a row, as text; nothing where it prints none.

    Example:
        >>> printed_row("scalar_residual", "x + 0.1x")
        ('0.01', '0.011', '1.1')
        >>> printed_row("logits", "A you@0")
        ()
    """
    return tuple(PRINTED_ROWS.get(step, {}).get(label, "").split())
