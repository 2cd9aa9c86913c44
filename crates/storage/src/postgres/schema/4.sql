-- How many live entries each scope has, so that a limit on the entries of a namespace is checked without counting them. Triggers keep
-- the numbers, because servers of an older program may go on writing beside newer ones.
CREATE TABLE kenning.entry_count (
    store int NOT NULL, scope bigint NOT NULL, many bigint NOT NULL, PRIMARY KEY (store, scope)
) WITH (fillfactor = 50);

CREATE FUNCTION kenning.entries_opened() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kenning.entry_count AS c
    SELECT v.store, v.scope, count(*) FROM opened AS v WHERE v.kind = 1 AND v.tx_to IS NULL GROUP BY v.store, v.scope
    ON CONFLICT (store, scope) DO UPDATE SET many = c.many + EXCLUDED.many;
    RETURN NULL;
END $$;
-- A row that stays live, as when a purge overwrites its columns, counts once before and once after.
CREATE FUNCTION kenning.entries_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE kenning.entry_count AS c SET many = c.many + d.many
    FROM (
        SELECT s.store, s.scope, sum(s.many) AS many FROM (
            SELECT v.store, v.scope, 1 AS many FROM closed AS v WHERE v.kind = 1 AND v.tx_to IS NULL
            UNION ALL
            SELECT v.store, v.scope, -1 FROM before AS v WHERE v.kind = 1 AND v.tx_to IS NULL
        ) AS s GROUP BY s.store, s.scope
    ) AS d
    WHERE c.store = d.store AND c.scope = d.scope AND d.many <> 0;
    RETURN NULL;
END $$;
CREATE FUNCTION kenning.entries_dropped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE kenning.entry_count AS c SET many = c.many - d.many
    FROM (
        SELECT v.store, v.scope, count(*) AS many FROM dropped AS v WHERE v.kind = 1 AND v.tx_to IS NULL GROUP BY v.store, v.scope
    ) AS d
    WHERE c.store = d.store AND c.scope = d.scope;
    RETURN NULL;
END $$;
CREATE TRIGGER entries_opened AFTER INSERT ON kenning.version REFERENCING NEW TABLE AS opened
    FOR EACH STATEMENT EXECUTE FUNCTION kenning.entries_opened();
CREATE TRIGGER entries_closed AFTER UPDATE ON kenning.version REFERENCING OLD TABLE AS before NEW TABLE AS closed
    FOR EACH STATEMENT EXECUTE FUNCTION kenning.entries_closed();
CREATE TRIGGER entries_dropped AFTER DELETE ON kenning.version REFERENCING OLD TABLE AS dropped
    FOR EACH STATEMENT EXECUTE FUNCTION kenning.entries_dropped();

-- The triggers have locked the table against writers, so nothing is missed between this count and the first trigger. The rows of all
-- stores are counted, which the policy would refuse to its owner too while it is forced.
ALTER TABLE kenning.version NO FORCE ROW LEVEL SECURITY;
INSERT INTO kenning.entry_count
SELECT v.store, v.scope, count(*) FROM kenning.version AS v WHERE v.kind = 1 AND v.tx_to IS NULL GROUP BY v.store, v.scope;
ALTER TABLE kenning.version FORCE ROW LEVEL SECURITY;

ALTER TABLE kenning.entry_count ENABLE ROW LEVEL SECURITY;
ALTER TABLE kenning.entry_count FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON kenning.entry_count USING (store = (SELECT current_setting('kenning.store')::int));
DO $$
DECLARE r text;
BEGIN
    -- The roles of servers that were set up with an older schema go on without new grants.
    FOR r IN
        SELECT g.grantee FROM information_schema.role_table_grants AS g
        WHERE g.table_schema = 'kenning' AND g.table_name = 'remembered' AND g.privilege_type = 'DELETE' AND g.grantee <> current_user
            AND g.grantee <> 'PUBLIC'
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON kenning.entry_count TO %I', r);
    END LOOP;
END $$;
