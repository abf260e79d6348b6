"""The tables of an index on a PostgreSQL server, see ``docs/reference/index_file.md``."""

from gedbd.retrieval.reports.report_features import FIELDS as CATEGORIES
from gedbd.triage.bug_report import DATES, FIELDS
from gedbd.triage.storage.rows import TERM_COLUMNS

NAME = "gedbd"  # of the schema that holds the tables
FRESH = "gedbd_fresh"  # of another model while it is written
FORMAT = 1
# Locks of the whole database. A writer takes the first one before it locks any table, so that no two wait for each
# other; gedbd index holds the second one.
WRITER, CORPUS = 0x6764_6264, 0x6764_6265
PATH = "SET LOCAL search_path = {}, public"
# Before the first statement that reads: the snapshot of a transaction is taken after all locks.
BEGIN_READING = f"""
LOCK TABLE {NAME}.totals IN ACCESS SHARE MODE;
SET LOCAL search_path = {NAME}, public;
SET LOCAL jit = off;
SET LOCAL hnsw.ef_search = 1000;
SET LOCAL hnsw.iterative_scan = relaxed_order;
SET LOCAL hnsw.max_scan_tuples = 200000"""
EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public"
# Without compression, and with rows up to a page in the table itself: vectors and postings do not compress.
PLAIN = "WITH (toast_tuple_target = 8160)"
CREATE = f"""
CREATE TABLE about (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE weights (part serial PRIMARY KEY, data bytea NOT NULL);
CREATE TABLE totals (
    format int NOT NULL, count int NOT NULL, next_key int NOT NULL, lengths bigint[] NOT NULL, loose int NOT NULL,
    vector_sum bytea NOT NULL, mean_vector bytea NOT NULL
);
CREATE TABLE reports (
    key int PRIMARY KEY,
    {", ".join(f"{name} text" if name in DATES else f"{name} text NOT NULL" for name in FIELDS)},
    content text NOT NULL
);
CREATE UNIQUE INDEX ON reports (issue_id);
CREATE TABLE features (
    key int PRIMARY KEY, issue_id text NOT NULL, grp int NOT NULL,
    {", ".join(f"{name} bigint NOT NULL" for name in CATEGORIES)},
    day float8, resolved float8, lengths int[] NOT NULL, {", ".join(f"{name} bytea NOT NULL" for name in TERM_COLUMNS)}
) {PLAIN};
CREATE INDEX ON features (grp);
CREATE INDEX ON features (component, key);
CREATE INDEX ON features (day);
CREATE INDEX ON features (resolved);
CREATE TABLE vectors (key int PRIMARY KEY, vector vector NOT NULL) {PLAIN};
CREATE TABLE postings (
    term bigint NOT NULL, first int NOT NULL, last int NOT NULL, n int NOT NULL, loose bool NOT NULL, docs bytea NOT NULL
) {PLAIN};
ALTER TABLE postings ALTER docs SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX ON postings (term, first) INCLUDE (last, n);
CREATE INDEX loose_postings ON postings (term) WHERE loose;
CREATE TABLE holes (key int PRIMARY KEY);
CREATE TABLE links (
    report text NOT NULL, duplicate text NOT NULL, source text NOT NULL, PRIMARY KEY (report, duplicate, source)
);
CREATE INDEX ON links (duplicate);
INSERT INTO totals VALUES ({FORMAT}, 0, 0, ARRAY[0, 0, 0, 0], 0, '', '')"""
NEAREST = "CREATE INDEX IF NOT EXISTS nearest ON vectors USING hnsw ((vector::halfvec({dim})) halfvec_ip_ops)"
REPLACE = f"""
DROP SCHEMA IF EXISTS {NAME} CASCADE;
ALTER SCHEMA {FRESH} RENAME TO {NAME}"""
