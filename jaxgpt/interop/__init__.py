"""Models that others wrote or will read: Hugging Face folders in and out, llama2.c files in."""
