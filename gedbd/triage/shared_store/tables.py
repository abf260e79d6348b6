"""The tables of an index on a PostgreSQL server, and statements about them."""

from gedbd.corpora.bug_report import DATES, FIELDS
from gedbd.triage.storage.rows import TERM_COLUMNS

NAME = "gedbd"  # of the schema that holds the tables
FORMER = "gedbd_former"  # of the tables of another model while it is replaced
FORMAT = 1
# Locks of the whole database. A writer takes the first one before it locks any table, so that no two wait for each
# other; gedbd index holds the second one.
WRITER = 0x6764_6264
CORPUS = 0x6764_6265
PATH = f"SET LOCAL search_path = {NAME}, public"
TIMEOUT = "SET LOCAL lock_timeout = {}"
BEGIN_READING = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    PATH,
    # Before the first statement that reads, at which all see one state: it waits while tables are replaced.
    f"LOCK TABLE {NAME}.totals IN ACCESS SHARE MODE",
    "SET LOCAL jit = off",
    "SET LOCAL hnsw.ef_search = 1000",
    "SET LOCAL hnsw.iterative_scan = relaxed_order",
    "SET LOCAL hnsw.max_scan_tuples = 200000",
)
BEGIN_WRITING = (f"SELECT pg_advisory_xact_lock({WRITER})", PATH)
# Words and vectors do not compress. Those of a report stay in its row, from which its description may be moved.
PLAIN = ";\n".join(f"ALTER TABLE reports ALTER {name} SET STORAGE MAIN" for name in TERM_COLUMNS)
CREATE = f"""
CREATE SCHEMA {NAME};
CREATE TABLE about (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE weights (part serial PRIMARY KEY, data bytea NOT NULL);
CREATE TABLE totals (
    format int NOT NULL, count int NOT NULL, next_key int NOT NULL, lengths bigint[] NOT NULL,
    vector_sum bytea NOT NULL, mean_vector bytea NOT NULL
);
CREATE TABLE reports (
    key int PRIMARY KEY,
    {", ".join(f"{name} text" if name in DATES else f"{name} text NOT NULL" for name in FIELDS)},
    content text NOT NULL, grp int NOT NULL, plain_component text NOT NULL, day float8, resolved float8,
    lengths int[] NOT NULL, {", ".join(f"{name} bytea NOT NULL" for name in TERM_COLUMNS)}
);
{PLAIN};
CREATE UNIQUE INDEX ON reports (issue_id);
CREATE INDEX ON reports (grp);
CREATE INDEX ON reports (plain_component, key);
CREATE INDEX ON reports (day);
CREATE INDEX ON reports (resolved);
CREATE TABLE vectors (key int PRIMARY KEY, vector vector NOT NULL);
ALTER TABLE vectors ALTER vector SET STORAGE MAIN;
CREATE TABLE postings (term bigint, block int, docs bytea NOT NULL, PRIMARY KEY (term, block));
ALTER TABLE postings ALTER docs SET STORAGE EXTERNAL;
CREATE TABLE holes (key int PRIMARY KEY);
CREATE TABLE links (report text, duplicate text, source text, PRIMARY KEY (report, duplicate, source));
CREATE INDEX ON links (duplicate);
INSERT INTO totals VALUES ({FORMAT}, 0, 0, ARRAY[0, 0, 0, 0], '', '')"""
NEAREST = "CREATE INDEX nearest ON vectors USING hnsw ((vector::halfvec({dim})) halfvec_ip_ops)"
# Reports and links that are connected with some reports, deleted ones included.
LINKED = """
WITH RECURSIVE reached(id) AS (
    SELECT unnest(%s::text[]) UNION
    SELECT other.id FROM reached JOIN LATERAL (
        SELECT duplicate AS id FROM links WHERE report = reached.id UNION ALL
        SELECT report FROM links WHERE duplicate = reached.id
    ) other ON true
) SELECT report, duplicate FROM links WHERE report IN (SELECT id FROM reached)"""
# The components with a text between commas. The index gives each at once, without reading all reports.
COMPONENTS = """
WITH RECURSIVE named(one) AS (
    SELECT min(plain_component) FROM reports UNION ALL
    SELECT (SELECT min(plain_component) FROM reports WHERE plain_component > one) FROM named WHERE one IS NOT NULL
) SELECT one FROM named WHERE position(%s IN ', ' || one || ', ') > 0"""
ADD_POSTINGS = """
INSERT INTO postings SELECT * FROM fresh_postings
ON CONFLICT (term, block) DO UPDATE SET docs = postings.docs || excluded.docs"""
