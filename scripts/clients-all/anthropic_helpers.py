"""The helpers of the Anthropic SDK that make tools of an MCP session; they raise on blocks that they do not know.

Usage: anthropic_helpers.py KENNING DATA_DIR
"""

import asyncio
import json
import sys
from pathlib import Path

from anthropic.lib.tools.mcp import async_mcp_tool, mcp_resource_to_content
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())


async def main(command: str, data_dir: str) -> None:
    server = StdioServerParameters(command=command, args=["serve", "--data-dir", data_dir])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = {tool.name: async_mcp_tool(tool, session) for tool in (await session.list_tools()).tools}
        for name, arguments, expected in CALLS:
            # Twice, so that a part of a list with all of it behind it is among the replies.
            for limited in [arguments, {**arguments, "limit": 1} if name in ("query", "search_patterns") else arguments]:
                reply = await tools[name].call(limited)
                assert expected in str(reply), (name, reply)
        read = await session.read_resource("knowledge://entries")
        assert "Blue-green" in read.contents[0].text and mcp_resource_to_content


asyncio.run(main(*sys.argv[1:]))
