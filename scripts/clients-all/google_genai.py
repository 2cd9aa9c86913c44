"""google-genai takes the whole list as function declarations, without an `additionalProperties` to stumble over.

Usage: google_genai.py KENNING DATA_DIR
"""

import asyncio
import json
import sys
from pathlib import Path

from google.genai import types
from google.genai._mcp_utils import mcp_to_gemini_tools
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())


async def main(command: str, data_dir: str) -> None:
    server = StdioServerParameters(command=command, args=["serve", "--toolsets", "all", "--data-dir", data_dir])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        converted = mcp_to_gemini_tools(tools)
        names = {declaration.name for tool in converted for declaration in tool.function_declarations}
        assert names == {tool.name for tool in tools} and len(names) > 40, len(names)
        for tool in tools:
            schema = types.JSONSchema.model_validate(tool.model_dump(by_alias=True)["inputSchema"])
            types.Schema.from_json_schema(json_schema=schema)
        for name, arguments, expected in CALLS:
            result = await session.call_tool(name, arguments)
            assert expected in result.content[0].text, (name, result)
        assert "Blue-green" in (await session.read_resource("knowledge://entries")).contents[0].text


asyncio.run(main(*sys.argv[1:]))
