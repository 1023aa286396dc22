"""Migrations, applied by `redpacket db migrate`."""
