"""Performance on real servers: `make bench`. What each figure means is in docs/performance.md."""
