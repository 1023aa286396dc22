"""Certifies a run of Redis, after what it lost has been rebuilt from seed and booked claims."""
