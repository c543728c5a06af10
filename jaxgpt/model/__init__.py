"""The model: parameter specs, Linen modules, pure functions over a tree of parameters, counting."""
