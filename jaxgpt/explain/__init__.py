"""The worked lesson: the numbers of a hand calculation, taken out of the modules that train."""
