"""The benchmark of generation: every token checked, then the steps behind the first one timed beside their bound."""
