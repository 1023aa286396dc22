"""What is kept in MySQL (SQLite in dev mode): tables, migrations, transactions."""
