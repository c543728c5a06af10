"""Generation: choosing the next token, and the loop that appends it."""
