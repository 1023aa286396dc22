"""The atomic operations on a packet in Redis: one Lua script a verb, one file that builds keys."""
