"""The tables of an index file."""

from gedbd.triage.report import DATES, FIELDS
from gedbd.triage.storage.rows import TERM_COLUMNS

FORMAT = 5  # of the tables; SQLite keeps it as user_version
WITHOUT_LOG = 4  # the format before, which only lacks the tables and triggers of LOG_SCHEMA
TABLES = {"about", "weights", "terms", "reports", "links", "identity", "changes"}
SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE weights (part INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE terms (number INTEGER PRIMARY KEY, term TEXT NOT NULL);
CREATE TABLE reports (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    {", ".join(f"{name} TEXT" if name in DATES else f"{name} TEXT NOT NULL" for name in FIELDS)},
    content TEXT NOT NULL, vector BLOB NOT NULL, {", ".join(f"{name} BLOB NOT NULL" for name in TERM_COLUMNS)}
);
CREATE UNIQUE INDEX by_id ON reports (issue_id);
CREATE TABLE links (
    report TEXT NOT NULL, duplicate TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (report, duplicate, source)
) WITHOUT ROWID;
"""
# Triggers write the log, so that no change can be forgotten. A change of a link has no row.
LOG_SCHEMA = """
CREATE TABLE identity (token TEXT NOT NULL);
INSERT INTO identity VALUES (lower(hex(randomblob(8))));
CREATE TABLE changes (number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER);
CREATE TRIGGER added AFTER INSERT ON reports BEGIN INSERT INTO changes (row) VALUES (new.row); END;
CREATE TRIGGER replaced AFTER UPDATE ON reports BEGIN INSERT INTO changes (row) VALUES (new.row); END;
CREATE TRIGGER deleted AFTER DELETE ON reports BEGIN INSERT INTO changes (row) VALUES (old.row); END;
CREATE TRIGGER linked AFTER INSERT ON links BEGIN INSERT INTO changes (row) VALUES (NULL); END;
CREATE TRIGGER unlinked AFTER DELETE ON links BEGIN INSERT INTO changes (row) VALUES (NULL); END;
CREATE INDEX by_duplicate ON links (duplicate)"""
