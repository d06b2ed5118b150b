"""What outlives every process: wishes, words of operators, who leads; SQLite or PostgreSQL.

The only room that imports SQLAlchemy and Alembic. The server and commands open it, workers and
agents never do.
"""
