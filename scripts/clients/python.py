"""The official Python client, which checks structured replies against the tools' output schemas.

Usage: python.py KENNING DATA_DIR legacy|2026-07-28
"""

import asyncio
import json
import subprocess
import sys
import warnings
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import MCPError, StdioServerParameters, types
from mcp.client.client import Client

NOTICE_MAX_S = 10


async def main(command: str, data_dir: str, mode: str) -> None:
    notices: asyncio.Queue = asyncio.Queue()

    async def heard(message) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            notices.put_nowait(message)

    server = StdioServerParameters(command=command, args=["serve", "--data-dir", data_dir])
    async with Client(server, mode=mode, message_handler=heard) as client:
        expected = "2025-11-25" if mode == "legacy" else mode
        assert client.protocol_version == expected, client.protocol_version
        await lists(client)
        entry, transactions = await tools(client)
        await resources(client, entry, transactions)
        await prompts(client)
        await scopes(client)
        await news(client, mode, notices)
        async with AsyncExitStack() as stack:
            if mode != "legacy":
                await stack.enter_async_context(client.listen(tools_list_changed=True))
            await documents(client, command, data_dir)
            await patterns(client, server, mode, command, data_dir)


async def lists(client: Client) -> None:
    tool_names = {tool.name for tool in (await client.list_tools()).tools}
    known = {"get_task_context", "store", "update", "query", "delete", "relate", "query_graph", "undo", "history"}
    assert known <= tool_names, tool_names
    listed = (await client.list_resources()).resources
    assert sorted(row.name for row in listed) == ["entries", "transactions", "triples"]
    assert all(row.meta["io.kenning/version"] == 1 for row in listed)
    templates = (await client.list_resource_templates()).resource_templates
    assert "entry" in [template.name for template in templates]
    prompt_names = [prompt.name for prompt in (await client.list_prompts()).prompts]
    assert sorted(prompt_names) == ["correct_stale_facts", "ingest_memory", "retrieve_context"]


async def tools(client: Client) -> tuple[str, int]:
    async def call(name: str, **arguments) -> dict:
        result = await client.call_tool(name, arguments)
        assert not result.is_error, (name, result)
        assert result.content[0].type == "text"
        return result.structured_content

    async def refused(code: str, name: str, **arguments) -> None:
        result = await client.call_tool(name, arguments)
        assert result.is_error, (name, result)
        assert result.structured_content["error"]["code"] == code, result
        assert result.content[0].text.startswith(code), result

    entry = await call("store", topic="deploys", content="Blue-green.", tags=["ops"], confidence=0.9)
    other = await call("store", topic="rollback", content="Within five minutes.", task_sizes=["S"])
    await refused("INVALID_ARGUMENT", "store", topic="deploys")
    updated = await call("update", id=entry["id"], content="Canaries.", expected_version=1)
    assert updated["version"] == 2
    await refused("CONFLICT", "update", id=entry["id"], content="Late.", expected_version=1)

    first = await call("query", limit=1)
    second = await call("query", limit=1, cursor=first["next_cursor"])
    assert {first["items"][0]["id"], second["items"][0]["id"]} == {entry["id"], other["id"]}
    assert (first["total_count"], second["next_cursor"]) == (2, None)
    found = await call("query", content="canaries", explain=True)
    assert found["items"][0]["id"] == entry["id"]
    await refused("INVALID_ARGUMENT", "query", limit=1000)

    red = await call("relate", subject="checkout", predicate="owned by", object="red")
    blue = await call("relate", subject="checkout", predicate="owned by", object="blue")
    assert blue["conflicts"][0]["id"] == red["id"]
    reject = {"subject": "checkout", "predicate": "owned by", "object": "green", "on_conflict": "reject"}
    await refused("CONFLICT", "relate", **reject)
    assert (await call("query_graph", subject="Checkout"))["total_count"] == 2
    await refused("INVALID_ARGUMENT", "query_graph", cursor="nonsense")

    await call("delete", id=other["id"])
    await refused("NOT_FOUND", "delete", id=other["id"])
    assert "tx_id" not in await call("undo", dry_run=True)
    undone = await call("undo", count=1)
    assert undone["changed_ids"] == [other["id"]]
    await refused("NOT_FOUND", "undo", tx_id=999)

    history = await call("history", limit=3)
    assert history["items"][0]["tx_id"] == undone["tx_id"]
    assert (await call("history", id=entry["id"]))["total_count"] == 2
    await refused("INVALID_ARGUMENT", "history", since=1)
    await rejected(client.call_tool("none", {}), -32602)
    return entry["id"], undone["tx_id"]


async def resources(client: Client, entry: str, transactions: int) -> None:
    async def read(uri: str) -> dict:
        [contents] = (await client.read_resource(uri)).contents
        assert contents.mime_type == "application/json"
        return json.loads(contents.text)

    pages = {"knowledge://entries": 2, "knowledge://graph/triples": 2}
    pages["knowledge://history/transactions"] = transactions
    for uri, expected in pages.items():
        page = await read(f"{uri}?limit=1")
        count = len(page["items"])
        while cursor := page["next_cursor"]:
            page = await read(f"{uri}?limit=1&cursor={cursor}")
            count += len(page["items"])
        assert count == expected, (uri, count)
    assert (await read(f"knowledge://entries/{entry}"))["items"][0]["content"] == "Canaries."
    # Older revisions have a code of their own for it.
    await rejected(client.read_resource("knowledge://entries/none"), -32002, -32602)


async def prompts(client: Client) -> None:
    for name, argument in [
        ("ingest_memory", "text"),
        ("retrieve_context", "task"),
        ("correct_stale_facts", "topic"),
    ]:
        prompt = await client.get_prompt(name, {argument: "a very special value"})
        assert "a very special value" in prompt.messages[0].content.text, name
        await rejected(client.get_prompt(name, {}), -32602)
    ref = types.PromptReference(type="ref/prompt", name="correct_stale_facts")
    completed = await client.complete(ref, {"name": "topic", "value": "dep"})
    assert completed.completion.values == ["deploys"]


async def scopes(client: Client) -> None:
    async def call(tool: str, **arguments) -> dict:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, (tool, result)
        return result.structured_content

    await call("create_namespace", name="acme", description="ACME Corporation")
    await call("create_scope", scope="acme:shop", description="The shop", parents=["acme:default"])
    rule = {"content": "Token lifetime is 15 minutes", "context": "auth session expiry login"}
    near = await call("write_knowledge", scope="acme:shop", **rule)
    context = await call("get_task_context", queries=["token lifetime", "session expiry"], scope="acme:shop")
    assert context["acme:shop"] == {near["id"]: rule["content"]}, context
    off = await call("get_task_context", queries=["giraffes of the savanna"])
    assert list(off["nothing_for"]) == ["giraffes of the savanna"], off
    refused = await client.call_tool("get_task_context", {"queries": [], "scope": "acme:shop"})
    assert refused.is_error and refused.structured_content["error"]["code"] == "INVALID_ARGUMENT", refused
    namespaces = (await call("get_namespaces", style="details"))["namespaces"]
    assert namespaces["acme"]["scopes"]["shop"]["parents"] == ["default"]
    gone = await call("delete_namespace", name="acme")
    assert (gone["scopes_count"], gone["knowledge_count"]) == (2, 1)
    await call("undo", tx_id=gone["tx_id"])
    assert (await call("query", scope="acme:shop", content="lifetime"))["items"][0]["id"] == near["id"]


async def news(client: Client, mode: str, notices: asyncio.Queue) -> None:
    uri = "knowledge://entries"

    async def check() -> None:
        stored = (await client.call_tool("store", {"topic": "news", "content": "New."})).structured_content
        notice = await asyncio.wait_for(notices.get(), NOTICE_MAX_S)
        assert notice.params.uri == uri
        assert notice.params.meta["io.kenning/change"] == {
            "resource_uri": uri,
            "tx_id": stored["tx_id"],
            "change_type": "upsert",
            "changed_ids": [stored["id"]],
        }, notice

    if mode == "legacy":
        # What older servers offer is what this mode is for.
        warnings.simplefilter("ignore")
        await client.subscribe_resource(uri)
        await check()
        await client.unsubscribe_resource(uri)
        return
    async with client.listen(resource_subscriptions=[uri, "knowledge://unknown"]) as subscription:
        assert subscription.honored.resource_subscriptions == [uri]
        await check()


async def documents(client: Client, command: str, data_dir: str) -> None:
    async def call(tool: str, **arguments) -> dict:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, (tool, result)
        return result.structured_content

    book = Path(data_dir, "book")
    book.mkdir()
    Path(book, "garbage.md").write_text("# Garbage\n\nGarbage is collected at 2:30. See [restoring](restore.md).\n")
    Path(book, "restore.md").write_text("# Restoring\n\nRun `volctl mount` first.\n")
    subprocess.run([command, "ingest", book, "--data-dir", data_dir], check=True, capture_output=True)
    quotes = (await call("kb_retrieve_evidence", question="when is garbage collected?"))["quotes"]
    assert "2:30" in quotes[0]["quote"], quotes
    first, second = (await call("kb_search", query="garbage collected"))["results"]
    assert (first["source"], second["source"]) == ("hybrid", "graph_expanded")
    passage = (await client.read_resource(first["scratch_uri"])).contents[0]
    assert passage.text.startswith("Garbage is collected"), passage
    assert passage.meta["io.kenning/annotations"]["priority"] == 0.1
    excerpt = await call("kb.read_excerpt", passage_id=first["passage_id"])
    assert "2:30" in excerpt["excerpt"] and excerpt["citation"]["section_id"] == first["section_id"]
    paths = await call("graph_paths", a_ids=[first["section_id"]], b_ids=["volctl mount"])
    assert paths["paths"][0]["types"] == ["links_to", "mentions"], paths
    old = await call("search_sections", query="garbage collected")
    assert old["results"][0]["section_id"] == first["section_id"] and old["results"][0]["rerank_score"] is None
    # A client may keep a list, but not after it was told of another.
    for _ in range(NOTICE_MAX_S * 20):
        tool_names = {tool.name for tool in (await client.list_tools()).tools}
        if "kb_search" in tool_names:
            break
        await asyncio.sleep(0.05)
    assert {"kb_search", "graph_expand"} <= tool_names and "search_sections" not in tool_names


OUTCOMES = [
    ("search_patterns", {"q": "try again later"}, "patternSearchResults:v1"),
    ("search_patterns", {"q": "giraffes of the savannah"}, "patternSearchResults:v1"),
    ("search_patterns", {"q": ""}, "needsInput:v1"),
    ("search_patterns", {"q": "common way"}, "needsInput:v1"),
    ("search_patterns", {"q": "x", "limit": 0}, "toolError:v1"),
    ("get_pattern", {"id": "retry-backoff"}, "patternDetails:v1"),
    ("get_pattern", {"id": "retry"}, "needsInput:v1"),
    ("get_pattern", {"id": "x", "color": "red"}, "toolError:v1"),
]


async def patterns(client: Client, server: StdioServerParameters, mode: str, command: str, data_dir: str) -> None:
    catalogue = Path(data_dir, "catalogue")
    catalogue.mkdir()
    for number in range(25):
        front = f"id: p{number}\ntitle: p{number}\ncategory: {'usual' if number % 5 else 'rare'}"
        Path(catalogue, f"p{number}.md").write_text(f"---\n{front}\n---\nThe common way, {number}.\n")
    retry = "---\nid: retry-backoff\ntitle: Retry\ncategory: errors\n---\nTry again later.\n"
    Path(catalogue, "retry.md").write_text(retry)
    ingest = [command, "ingest", "--kind", "patterns", catalogue, "--data-dir", data_dir]
    subprocess.run(ingest, check=True, capture_output=True)
    for name, arguments, kind in OUTCOMES:
        for form in ["markdown", "json", "both"]:
            result = await client.call_tool(name, {**arguments, "format": form})
            told = result.structured_content
            what = (name, arguments, form, result)
            assert told["kind"] == kind and bool(result.is_error) == (kind == "toolError:v1"), what
            assert extracted(result.content) == (None if form == "markdown" else told), what
            if kind == "patternSearchResults:v1":
                cards = sum(block.text.count("<!-- kind:pattern-card:v1 -->") for block in result.content)
                assert told["metadata"]["contractMarkers"]["cards"] == cards == len(told["metadata"]["renderedCardIds"]), what

    questions = [
        ("search_patterns", {}, {"q": "try again"}, lambda told: told["patterns"][0]["id"] == "retry-backoff"),
        ("search_patterns", {"q": "common way"}, {"category": "rare"}, lambda told: told["metadata"]["totalCount"] == 5),
        ("get_pattern", {}, {"id": "retry-backoff"}, lambda told: told["kind"] == "patternDetails:v1"),
    ]
    for name, arguments, content, is_it in questions:
        for action in ["accept", "decline", "cancel"]:

            async def answer(context, params) -> types.ElicitResult:
                assert content.keys() <= params.requested_schema["properties"].keys(), params
                return types.ElicitResult(action=action, content=content if action == "accept" else None)

            async with Client(server, mode=mode, elicitation_callback=answer) as asking:
                told = (await asking.call_tool(name, arguments)).structured_content
                assert is_it(told) if action == "accept" else told["kind"] == "needsInput:v1", (name, action, told)


def extracted(content) -> dict | None:
    """As a program finds the JSON: whatever can be read as such, from the last block on."""
    for block in reversed(content):
        try:
            return json.loads(block.text)
        except ValueError:
            pass
    return None


async def rejected(call, *codes: int) -> None:
    try:
        answer = await call
    except MCPError as error:
        assert error.code in codes, error
        return
    raise AssertionError(f"expected error {codes}, got {answer}")


asyncio.run(main(*sys.argv[1:]))
