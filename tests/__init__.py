"""Tests: unit (no I/O), integration (real servers), acceptance (HTTP in; row, board, money out)."""
