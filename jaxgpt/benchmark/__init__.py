"""The benchmark of compiled against eager: verify, compile, time in turn, hold against the machine, record.

`jaxgpt bench attention` and `python -m jaxgpt.benchmark attention` run it; neither imports what only training needs.
"""
