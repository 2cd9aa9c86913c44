-- For people with psql, and for programs that speak only SQL: the store to look at is named once for a session, and then there are
-- views, what a scope sees, and a search by words. Nothing of this is what agents get: they are answered from an index.

-- Names the store that everything else in this session is about.
CREATE FUNCTION kenning.use_store(name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE number int;
BEGIN
    PERFORM set_config('kenning.store_name', use_store.name, false);
    SELECT s.store INTO number FROM kenning.store AS s WHERE s.name = use_store.name COLLATE "C";
    IF number IS NULL THEN
        RAISE EXCEPTION 'there is no store "%"', use_store.name;
    END IF;
    PERFORM set_config('kenning.store', number::text, false);
    RETURN number;
END $$;

-- What a log row says. `jsonb` can't hold U+0000, so it is shown as the sign for what can't be shown.
CREATE FUNCTION kenning.record(body text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(body, '\u0000', '\ufffd')::jsonb
$$;

-- What live scopes are called.
CREATE VIEW kenning.scopes WITH (security_invoker = true) AS
SELECT 1::bigint AS number, 'global:default'::text AS name
UNION ALL
SELECT s.number, coalesce(n.name, 'global') || ':' || s.name
FROM kenning.version AS s
LEFT JOIN kenning.version AS n ON n.store = s.store AND n.kind = 3 AND n.id = s.namespace AND n.tx_to IS NULL
WHERE s.store = current_setting('kenning.store')::int AND s.kind = 4 AND s.tx_to IS NULL;

-- What a scope sees, nearest first: itself, its parents, the `default` of its namespace, and `global:default`.
CREATE FUNCTION kenning.scope_chain(scope text) RETURNS TABLE (place bigint, number bigint, name text)
LANGUAGE sql STABLE AS $$
    WITH asked AS (SELECT s.number FROM kenning.scopes AS s WHERE s.name = scope_chain.scope),
    chain AS (
        SELECT sees.place, sees.number FROM asked
        JOIN kenning.closure AS c ON c.scope = asked.number AND c.tx_to IS NULL,
        unnest(c.sees) WITH ORDINALITY AS sees(number, place)
        WHERE c.store = current_setting('kenning.store')::int
        UNION ALL SELECT 1, 1 FROM asked WHERE asked.number = 1
    )
    SELECT chain.place, chain.number, s.name FROM chain JOIN kenning.scopes AS s ON s.number = chain.number
    ORDER BY chain.place
$$;

-- The live entries, as they were written.
CREATE VIEW kenning.entries WITH (security_invoker = true) AS
SELECT v.id, s.name AS scope, r.r ->> 'topic' AS topic, r.r ->> 'content' AS content, r.r ->> 'context' AS context,
    ARRAY(SELECT jsonb_array_elements_text(r.r -> 'tags')) AS tags, r.r ->> 'actor' AS actor, NOT v.suppressed AS is_active,
    v.pinned AS is_pinned, (r.r ->> 'version')::int AS version, (r.r ->> 'recorded_at')::timestamptz AS recorded_at,
    (r.r ->> 'updated_at')::timestamptz AS updated_at, v.tx_from AS tx_id
FROM kenning.version AS v
JOIN kenning.log AS l ON l.store = v.store AND l.tx_id = v.tx_from AND l.seq = v.seq
CROSS JOIN LATERAL (SELECT kenning.record(l.body) AS r) AS r
LEFT JOIN kenning.scopes AS s ON s.number = v.scope
WHERE v.store = current_setting('kenning.store')::int AND v.kind = 1 AND v.tx_to IS NULL;

-- Every change, with who made it.
CREATE VIEW kenning.history WITH (security_invoker = true) AS
SELECT l.tx_id, (h.h ->> 'at')::timestamptz AS at, h.h ->> 'actor' AS actor, h.h ->> 'tool' AS tool,
    (ARRAY['entry', 'triple', 'namespace', 'scope', 'document', 'section'])[l.kind] AS entity_type, l.id,
    l.body IS NULL AS is_deleted, kenning.record(l.body) AS record
FROM kenning.log AS l
JOIN kenning.log AS header ON header.store = l.store AND header.tx_id = l.tx_id AND header.seq = 0
CROSS JOIN LATERAL (SELECT kenning.record(header.body) AS h) AS h
WHERE l.store = current_setting('kenning.store')::int AND l.seq > 0;

-- The words of live entries. A lexeme stands for the store, so that one index serves all stores.
CREATE TABLE kenning.words (
    store int NOT NULL, tx_from bigint NOT NULL, seq int NOT NULL, scope bigint NOT NULL, words tsvector NOT NULL,
    PRIMARY KEY (store, tx_from, seq)
);
CREATE INDEX words_words ON kenning.words USING gin (words);
-- Not forced for the owner, as whom `search_knowledge` runs: under a policy PostgreSQL does not use an index by words. The function
-- names the store itself.
ALTER TABLE kenning.words ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON kenning.words USING (store = (SELECT current_setting('kenning.store')::int));

CREATE FUNCTION kenning.words_of(store int, body text) RETURNS tsvector LANGUAGE sql IMMUTABLE AS $$
    SELECT setweight(to_tsvector('pg_catalog.english', left(coalesce(r ->> 'topic', ''), 10000)), 'A')
        || setweight(to_tsvector('pg_catalog.english', left(coalesce(r ->> 'content', ''), 100000)), 'B')
        || setweight(to_tsvector('pg_catalog.english', left(coalesce(r ->> 'context', ''), 100000)), 'C')
        || array_to_tsvector(ARRAY['kenning-store-' || store])
    FROM (SELECT kenning.record(body) AS r) AS r
$$;

CREATE FUNCTION kenning.words_opened() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kenning.words
    SELECT v.store, v.tx_from, v.seq, v.scope, kenning.words_of(v.store, l.body)
    FROM opened AS v JOIN kenning.log AS l ON l.store = v.store AND l.tx_id = v.tx_from AND l.seq = v.seq
    WHERE v.kind = 1 AND v.tx_to IS NULL AND l.body IS NOT NULL;
    RETURN NULL;
END $$;
CREATE FUNCTION kenning.words_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM kenning.words AS w USING closed AS v
    WHERE w.store = v.store AND w.tx_from = v.tx_from AND w.seq = v.seq AND v.kind = 1 AND v.tx_to IS NOT NULL;
    RETURN NULL;
END $$;
CREATE FUNCTION kenning.words_dropped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM kenning.words AS w USING dropped AS v
    WHERE w.store = v.store AND w.tx_from = v.tx_from AND w.seq = v.seq;
    RETURN NULL;
END $$;
CREATE TRIGGER words_opened AFTER INSERT ON kenning.version REFERENCING NEW TABLE AS opened
    FOR EACH STATEMENT EXECUTE FUNCTION kenning.words_opened();
CREATE TRIGGER words_closed AFTER UPDATE ON kenning.version REFERENCING NEW TABLE AS closed
    FOR EACH STATEMENT EXECUTE FUNCTION kenning.words_closed();
CREATE TRIGGER words_dropped AFTER DELETE ON kenning.version REFERENCING OLD TABLE AS dropped
    FOR EACH STATEMENT EXECUTE FUNCTION kenning.words_dropped();

-- Live entries that a scope sees and that have words of a query, the best first. Each query counts by its best place.
CREATE FUNCTION kenning.search_knowledge(queries text[], scope text, count int DEFAULT 10)
RETURNS TABLE (id text, scope_name text, topic text, content text, rank real)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH asked AS (
        SELECT replace(plainto_tsquery('pg_catalog.english', q)::text, ' & ', ' | ')::tsquery AS words
        FROM unnest(queries) AS q WHERE numnode(plainto_tsquery('pg_catalog.english', q)) > 0
    ),
    chain AS (SELECT c.number, c.place, c.name FROM kenning.scope_chain(search_knowledge.scope) AS c),
    found AS (
        SELECT w.store, w.tx_from, w.seq, w.scope, max(ts_rank(w.words, asked.words, 1)) AS rank
        FROM asked JOIN kenning.words AS w
            ON w.words @@ (asked.words && ('''kenning-store-' || current_setting('kenning.store') || '''')::tsquery)
        WHERE w.store = current_setting('kenning.store')::int AND w.scope IN (SELECT chain.number FROM chain)
        GROUP BY w.store, w.tx_from, w.seq, w.scope
    )
    SELECT v.id, chain.name, r.r ->> 'topic', r.r ->> 'content', found.rank
    FROM found
    JOIN kenning.version AS v ON v.store = found.store AND v.tx_from = found.tx_from AND v.seq = found.seq
    JOIN kenning.log AS l ON l.store = v.store AND l.tx_id = v.tx_from AND l.seq = v.seq
    JOIN chain ON chain.number = v.scope
    CROSS JOIN LATERAL (SELECT kenning.record(l.body) AS r) AS r
    WHERE NOT v.suppressed AND coalesce(v.valid_from, 0) <= extract(epoch FROM now()) * 1000
        AND (v.valid_to IS NULL OR v.valid_to > extract(epoch FROM now()) * 1000)
    ORDER BY found.rank DESC, chain.place, v.tx_from DESC, v.seq DESC
    LIMIT greatest(search_knowledge.count, 0)
$$;
REVOKE ALL ON FUNCTION kenning.search_knowledge(text[], text, int) FROM PUBLIC;
