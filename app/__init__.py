"""The service: HTTP, money, wiring."""
