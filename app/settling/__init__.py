"""Closes the books of a packet: refund, best luck, seed revealed."""
