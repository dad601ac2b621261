"""Asks with the official libraries for Python: a JSON line on standard input is a request, one on standard output is what was seen of its answer."""

import asyncio
import json
import os
import sys

import anthropic
import openai

HOST = f"http://127.0.0.1:{os.environ['EDGE_TEST_PORT']}"
OPENAI = openai.AsyncOpenAI(base_url=f"{HOST}/v1", api_key="sk-of-the-client", max_retries=0)
ANTHROPIC = anthropic.AsyncAnthropic(base_url=HOST, api_key="sk-of-the-client", max_retries=0)
FOREVER = 1 << 30


def request_of(asked):
    return {
        "model": asked["model"],
        "max_tokens": asked["maxTokens"],
        "messages": [{"role": "user", "content": asked["prompt"]}],
        "extra_headers": {"X-Marker": asked["marker"]},
    }


async def ask_openai(asked, seen):
    if not asked["isStream"]:
        answer = await OPENAI.chat.completions.create(**request_of(asked))
        seen.update(status=200, model=answer.model, text=answer.choices[0].message.content)
        seen.update(promptTokens=answer.usage.prompt_tokens, completionTokens=answer.usage.completion_tokens)
        return
    stream = await OPENAI.chat.completions.create(**request_of(asked), stream=True, stream_options={"include_usage": True})
    seen["status"] = 200
    pieces = 0
    async for chunk in stream:
        seen["model"] = chunk.model
        if chunk.choices:
            seen["text"] += chunk.choices[0].delta.content or ""
        if chunk.usage:
            seen.update(promptTokens=chunk.usage.prompt_tokens, completionTokens=chunk.usage.completion_tokens)
        pieces += 1
        if pieces >= asked.get("leavesAfter", FOREVER):
            seen["end"] = "left"
            await stream.close()
            return
    if seen["completionTokens"] == 0:
        raise EOFError("the stream ended before its end")


async def ask_anthropic(asked, seen):
    if not asked["isStream"]:
        answer = await ANTHROPIC.messages.create(**request_of(asked))
        seen.update(status=200, model=answer.model, text=answer.content[0].text)
        seen.update(promptTokens=answer.usage.input_tokens, completionTokens=answer.usage.output_tokens)
        return
    stream = await ANTHROPIC.messages.create(**request_of(asked), stream=True)
    seen["status"] = 200
    pieces = 0
    has_ended = False
    async for event in stream:
        if event.type == "message_start":
            seen.update(model=event.message.model, promptTokens=event.message.usage.input_tokens)
        elif event.type == "content_block_delta":
            seen["text"] += event.delta.text
        elif event.type == "message_delta":
            seen["completionTokens"] = event.usage.output_tokens
        elif event.type == "message_stop":
            has_ended = True
        pieces += 1
        if pieces >= asked.get("leavesAfter", FOREVER):
            seen["end"] = "left"
            await stream.close()
            return
    if not has_ended:
        raise EOFError("the stream ended before its end")


async def serve(asked):
    seen = {"end": "whole", "status": 0, "model": "", "text": "", "promptTokens": 0, "completionTokens": 0}
    try:
        await (ask_openai if asked["sdk"] == "openai" else ask_anthropic)(asked, seen)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        seen.update(end="status", status=error.status_code)
    except Exception:  # whatever a library raises for a connection that breaks
        seen["end"] = "broken"
    print(json.dumps({"marker": asked["marker"], "seen": seen}), flush=True)


async def main():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    while line := await reader.readline():
        task = asyncio.create_task(serve(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


asyncio.run(main())
