-- Files that a server has derived from the log and left for the others, so that a new server need not read the whole log. They are
-- a cache: everything here can be deleted at any time.

-- One row for each set. `files` and `sizes` name the files of which all parts are there. Whoever leaves a set holds a claim on its row
-- for a limited time, so a server that dies while it leaves one keeps nobody away.
CREATE TABLE kenning.file_set (
    store int NOT NULL, name text COLLATE "C" NOT NULL, at bigint NOT NULL DEFAULT 0, manifest text COLLATE "C" NOT NULL DEFAULT '',
    files text[] NOT NULL DEFAULT '{}', sizes bigint[] NOT NULL DEFAULT '{}', left_at timestamptz NOT NULL DEFAULT '-infinity',
    claimant bytea, claimed_until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (store, name)
) WITH (fillfactor = 50);

-- The content of the files in parts of equal length, of which the last may be shorter.
CREATE TABLE kenning.file_part (
    store int NOT NULL, name text COLLATE "C" NOT NULL, file text COLLATE "C" NOT NULL, part int NOT NULL, bytes bytea NOT NULL,
    PRIMARY KEY (store, name, file, part)
);
-- The files are packed already, so compressing them again would cost time and save nothing.
ALTER TABLE kenning.file_part ALTER COLUMN bytes SET STORAGE EXTERNAL;

DO $$
DECLARE t text;
DECLARE r text;
BEGIN
    FOREACH t IN ARRAY ARRAY['file_set', 'file_part'] LOOP
        EXECUTE format('ALTER TABLE kenning.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE kenning.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own ON kenning.%I USING (store = (SELECT current_setting(''kenning.store'')::int))', t);
        -- The roles of servers that were set up with an older schema go on without new grants.
        FOR r IN
            SELECT g.grantee FROM information_schema.role_table_grants AS g
            WHERE g.table_schema = 'kenning' AND g.table_name = 'remembered' AND g.privilege_type = 'DELETE' AND g.grantee <> current_user
        LOOP
            IF r = 'PUBLIC' THEN
                CONTINUE;
            END IF;
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON kenning.%I TO %I', t, r);
        END LOOP;
    END LOOP;
END $$;
