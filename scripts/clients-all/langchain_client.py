"""LangChain's adapters, and LangGraph's node that runs the calls of one message at the same time.

Usage: langchain_client.py KENNING DATA_DIR
"""

import asyncio
import json
import sys
from pathlib import Path

from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())


async def main(command: str, data_dir: str) -> None:
    server = {"command": command, "args": ["serve", "--data-dir", data_dir], "transport": "stdio"}
    client = MultiServerMCPClient({"kenning": server})
    async with client.session("kenning") as session:
        tools = await load_mcp_tools(session)
        by_name = {tool.name: tool for tool in tools}
        for name, arguments, expected in CALLS:
            reply = await by_name[name].ainvoke(arguments)
            assert expected in str(reply), (name, reply)
        # What a model sends in one message is run at the same time, and has its effect in its order.
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        app = graph.compile()
        for number in range(20):
            word = f"parallel{number}"
            calls = [
                {"name": "store", "args": {"topic": word, "content": f"Says {word}."}, "id": f"a{number}", "type": "tool_call"},
                {"name": "query", "args": {"content": word, "limit": 1}, "id": f"b{number}", "type": "tool_call"},
            ]
            done = await app.ainvoke({"messages": [AIMessage(content="", tool_calls=calls)]})
            found = done["messages"][-1]
            assert f"Says {word}." in str(found.content), found
        [entries] = await load_mcp_resources(session, uris="knowledge://entries")
        assert "Blue-green" in entries.as_string()


asyncio.run(main(*sys.argv[1:]))
