-- `store` is the first column of every key: a store can be partitioned, moved or dropped alone, and two stores share no row
-- and no lock. Row-level security is the second wall: a statement that forgets its store finds nothing.
-- Texts compare by bytes, as they do in SQLite.
CREATE SCHEMA kenning;

CREATE TABLE kenning.schema_version (version int NOT NULL, oldest_program int NOT NULL);
INSERT INTO kenning.schema_version VALUES (0, 0);

-- One row per store. It is locked by whoever writes to the store, so transaction numbers are dense and in the order of the
-- commits. `tree` is the last transaction that changed a namespace or a scope.
CREATE TABLE kenning.store (
    store int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    id bytea NOT NULL,
    secret bytea NOT NULL,
    crc bigint NOT NULL,
    head bigint NOT NULL DEFAULT 0,
    tree bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

-- The log: row 0 of a transaction is its header, the others are its changes. `batch` is in the header of the first transaction
-- of a commit: whoever does not know whether a commit took place looks it up.
CREATE TABLE kenning.log (
    store int NOT NULL, tx_id bigint NOT NULL, seq int NOT NULL, kind smallint NOT NULL, id text COLLATE "C" NOT NULL,
    body text COLLATE "C", crc bigint NOT NULL, batch bytea,
    PRIMARY KEY (store, tx_id, seq)
);

CREATE TABLE kenning.remembered (
    store int NOT NULL, actor text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, tool text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL, reply text COLLATE "C" NOT NULL, at bigint NOT NULL, crc bigint NOT NULL,
    PRIMARY KEY (store, actor, key)
);
CREATE INDEX remembered_at ON kenning.remembered (store, at);

-- Derived from the log: from which transaction to which each version was live, and what listings filter by. The kinds are
-- 1 entry, 2 triple, 3 namespace, 4 scope, 5 document, 6 section.
CREATE TABLE kenning.version (
    store int NOT NULL, tx_from bigint NOT NULL, seq int NOT NULL, tx_to bigint, kind smallint NOT NULL,
    id text COLLATE "C" NOT NULL, scope bigint,
    topic_key text COLLATE "C", suppressed boolean, valid_from bigint, valid_to bigint, pinned boolean,
    subject_key text COLLATE "C", predicate_key text COLLATE "C", object_key text COLLATE "C",
    source text COLLATE "C", path text COLLATE "C", hash text COLLATE "C", pattern text COLLATE "C",
    document text COLLATE "C", position int,
    name text COLLATE "C", number bigint, namespace text COLLATE "C",
    PRIMARY KEY (store, tx_from, seq)
);
CREATE INDEX version_id ON kenning.version (store, id, kind, tx_from);
CREATE UNIQUE INDEX version_live ON kenning.version (store, id, kind) WHERE tx_to IS NULL;
CREATE INDEX version_entry ON kenning.version (store, scope, tx_from DESC, seq DESC) WHERE kind = 1;
CREATE INDEX version_pinned ON kenning.version (store, scope, tx_from DESC, seq DESC) WHERE kind = 1 AND pinned;
CREATE INDEX version_topic ON kenning.version (store, scope, topic_key) WHERE kind = 1 AND tx_to IS NULL;
CREATE INDEX version_triple ON kenning.version (store, scope, tx_from DESC, seq DESC) WHERE kind = 2;
CREATE INDEX version_subject ON kenning.version (store, subject_key, predicate_key) WHERE kind = 2;
CREATE INDEX version_predicate ON kenning.version (store, predicate_key) WHERE kind = 2;
CREATE INDEX version_object ON kenning.version (store, object_key) WHERE kind = 2;
CREATE INDEX version_place ON kenning.version (store, tx_from) WHERE kind IN (3, 4);
CREATE INDEX version_place_to ON kenning.version (store, tx_to) WHERE kind IN (3, 4);
CREATE INDEX version_path ON kenning.version (store, source, path) WHERE kind = 5;
CREATE INDEX version_document_scope ON kenning.version (store, scope, source, tx_from DESC) WHERE kind = 5;
CREATE INDEX version_pattern ON kenning.version (store, pattern) WHERE kind = 5 AND pattern IS NOT NULL;
CREATE INDEX version_section ON kenning.version (store, document) WHERE kind = 6;

-- What each scope saw when, nearest first.
CREATE TABLE kenning.closure (
    store int NOT NULL, scope bigint NOT NULL, tx_from bigint NOT NULL, tx_to bigint, sees bigint[] NOT NULL,
    PRIMARY KEY (store, scope, tx_from)
);
CREATE INDEX closure_from ON kenning.closure (store, tx_from);
CREATE INDEX closure_to ON kenning.closure (store, tx_to);

-- Which transactions concern a scope (0 for what belongs to none), by kind (0 for none), and who made them.
CREATE TABLE kenning.touched (
    store int NOT NULL, tx_id bigint NOT NULL, scope bigint NOT NULL, kind smallint NOT NULL,
    origin text COLLATE "C" NOT NULL,
    PRIMARY KEY (store, tx_id, scope, kind)
);
CREATE INDEX touched_scope ON kenning.touched (store, scope, tx_id DESC);
CREATE INDEX touched_origin ON kenning.touched (store, origin, tx_id DESC);

-- Which transaction took back which.
CREATE TABLE kenning.undo (
    store int NOT NULL, target bigint NOT NULL, by_tx bigint NOT NULL, PRIMARY KEY (store, target, by_tx)
);

DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['store', 'log', 'remembered', 'version', 'closure', 'touched', 'undo'] LOOP
        EXECUTE format('ALTER TABLE kenning.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE kenning.%I FORCE ROW LEVEL SECURITY', t);
        IF t = 'store' THEN
            EXECUTE 'CREATE POLICY own ON kenning.store USING (name = current_setting(''kenning.store_name'') COLLATE "C")';
        ELSE
            -- The subselect is evaluated once for a statement, not once for a row.
            EXECUTE format(
                'CREATE POLICY own ON kenning.%I USING (store = (SELECT current_setting(''kenning.store'')::int))', t);
        END IF;
    END LOOP;
END $$;
