"""Pydantic AI with a scripted model that makes the calls one after the other.

Usage: pydantic_ai_client.py KENNING DATA_DIR
"""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())


def scripted(messages, info) -> ModelResponse:
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(returned) == len(CALLS):
        for part, (name, _, expected) in zip(returned, CALLS):
            # Some replies say it in words and some in fields, and this framework shows a model the fields.
            assert expected in str(part.content) or "tx_id" in str(part.content), (name, part.content)
        return ModelResponse(parts=[TextPart("done")])
    name, arguments, _ = CALLS[len(returned)]
    return ModelResponse(parts=[ToolCallPart(name, arguments)])


async def main(command: str, data_dir: str) -> None:
    server = MCPToolset(StdioTransport(command, ["serve", "--data-dir", data_dir]))
    agent = Agent(FunctionModel(scripted), toolsets=[server])
    async with agent:
        result = await agent.run("Go on.")
    assert result.output == "done", result


asyncio.run(main(*sys.argv[1:]))
