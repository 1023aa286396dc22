"""The demo of dev mode: a packet, a crowd over HTTP, and a check of what the crowd was told."""
