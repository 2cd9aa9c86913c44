"""FastMCP's client. Usage: fastmcp_client.py KENNING DATA_DIR"""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())


async def main(command: str, data_dir: str) -> None:
    async with Client(StdioTransport(command, ["serve", "--data-dir", data_dir])) as client:
        listed = {tool.name for tool in await client.list_tools()}
        for name, arguments, expected in CALLS:
            assert name in listed, name
            result = await client.call_tool(name, arguments)
            assert expected in result.content[0].text and result.structured_content, (name, result)
        contents = await client.read_resource("knowledge://entries")
        assert "Blue-green" in contents[0].text, contents


asyncio.run(main(*sys.argv[1:]))
