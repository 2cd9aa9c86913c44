"""The OpenAI Agents SDK: strict schemas of every tool, and an agent whose model is scripted.

Usage: openai_agents.py KENNING DATA_DIR
"""

import asyncio
import json
import sys
from pathlib import Path

from agents import Agent
from agents.mcp import MCPServerStdio
from agents.mcp.util import MCPUtil

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())


async def main(command: str, data_dir: str) -> None:
    params = {"command": command, "args": ["serve", "--data-dir", data_dir]}
    async with MCPServerStdio(params=params) as server:
        tools = await server.list_tools()
        agent = Agent(name="agent", mcp_servers=[server])
        for tool in tools:
            made = MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True, agent=agent)
            assert made.strict_json_schema, tool.name
        for name, arguments, expected in CALLS:
            result = await server.call_tool(name, arguments)
            assert expected in result.content[0].text, (name, result)


asyncio.run(main(*sys.argv[1:]))
