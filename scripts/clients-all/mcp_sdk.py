"""An older official Python client: lists, calls a tool of each family, reads a resource.

Usage: mcp_sdk.py KENNING DATA_DIR REVISION
"""

import asyncio
import json
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())


async def main(command: str, data_dir: str, revision: str) -> None:
    server = StdioServerParameters(command=command, args=["serve", "--data-dir", data_dir])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        hello = await session.initialize()
        assert hello.protocolVersion == revision, hello.protocolVersion
        listed = {tool.name for tool in (await session.list_tools()).tools}
        for name, arguments, expected in CALLS:
            assert name in listed, name
            result = await session.call_tool(name, arguments)
            assert not result.isError and expected in result.content[0].text, (name, result)
        contents = (await session.read_resource("knowledge://entries")).contents
        assert "Blue-green" in contents[0].text, contents


asyncio.run(main(*sys.argv[1:]))
