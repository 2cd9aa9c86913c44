-- What servers need of the schema, and no more: run by its owner, after it was made and as often as one likes. docs/team.md says why.
GRANT USAGE ON SCHEMA kenning TO kenning_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA kenning TO kenning_server;
REVOKE INSERT, UPDATE, DELETE ON kenning.schema_version FROM kenning_server;
REVOKE UPDATE, DELETE ON kenning.log FROM kenning_server;
GRANT EXECUTE ON FUNCTION kenning.search_knowledge(text[], text, int) TO kenning_server;
