"""The Python SDK does all that the daemon offers: client.py URL, once in each era of the protocol.

Each check is a line: "ok" or "FAILED", and its name.
"""
import asyncio
import json
import sys
import traceback

from mcp.client.client import Client


async def call(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def tools(client, namespace):
    listed = (await client.list_tools()).tools
    assert len(listed) == 9 and all(t.output_schema for t in listed), listed
    await call(client, "memory_write", namespace=namespace, key="k", value="one", if_version="absent")
    await call(client, "memory_append", namespace=namespace, key="k", value="twö")
    read = await call(client, "memory_read", namespace=namespace, key="k")
    assert read["value"] == "one\ntwö", read
    late = await client.call_tool("memory_write", {"namespace": namespace, "key": "k", "value": "x", "if_version": "absent"})
    assert late.is_error and "conflict" in late.content[0].text, late
    assert [e["key"] for e in (await call(client, "memory_list", namespace=namespace))["entries"]] == ["k"]
    assert (await call(client, "memory_search", namespace=namespace, query="TWÖ"))["matches"][0]["in_value"]
    assert (await call(client, "memory_recent", namespace=namespace))["entries"][0]["key"] == "k"
    assert (await call(client, "memory_history", namespace=namespace, key="k"))["exists"]


async def deleting(client, namespace):
    assert (await call(client, "memory_delete", namespace=namespace, key="k"))["deleted"]
    assert not (await call(client, "memory_read", namespace=namespace, key="k"))["exists"]


async def main(url):
    for mode in "auto", "legacy":
        async with Client(url, mode=mode) as client:
            for check in tools, deleting:
                name = f"python {client.protocol_version}: {check.__name__}"
                try:
                    await asyncio.wait_for(check(client, f"python-{mode}"), 20)
                    print(f"ok      {name}")
                except Exception:
                    print(f"FAILED  {name}: {traceback.format_exc()}")


asyncio.run(main(sys.argv[1]))
