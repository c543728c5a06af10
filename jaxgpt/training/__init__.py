"""Training: optimizer, compiled step, evaluation, the loop, and what it tells the user."""
