"""Texts larger than memory into a token file: read, cut, encoded by all cores, written so that a kill loses little.

`inputs` finds the files, `reading` makes jobs of them, `pieces` says where a text may be cut, `workers` encodes,
`journal` and `partial` keep what is done, `preparation` joins them.
"""

from .inputs import Input, find_inputs
from .preparation import Prepared, Request, prepare

__all__ = ["Input", "Prepared", "Request", "find_inputs", "prepare"]
