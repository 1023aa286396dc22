"""A packet's life: funded in MySQL, opened in Redis, read from both."""
