"""A server that answers like OpenAI's and misbehaves on request, for the tests of what measures and proxies servers.

A request's member "fake" says how: {"status": 429} answers with that; "hold": text waits in front of its third token until /release is asked for;
"lost_token", "no_end", "cut", "error", "bytes_per_write" damage a stream. It says what it was asked in `seen`.
"""
import asyncio
import hashlib
import json
import threading


class FakeServer:
    """Runs on a thread of its own; use it with `with`."""

    def __init__(self, name="fake"):
        self.name, self.seen, self.port, self.gone = name, [], None, threading.Event()

    def __enter__(self):
        ready = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)))
        self.thread.start()
        ready.wait(20)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def _run(self, ready):
        self.loop, self.stop, self.released = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self.stop.wait()
        server.close()
        self.released.set()
        await asyncio.sleep(0.05)  # for those that waited

    async def _connection(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.seen.append({"method": method, "path": path, "headers": headers, "body": json.loads(body) if body else None})
            await self._route(path, self.seen[-1]["body"], reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        writer.close()

    async def _route(self, path, request, reader, writer):
        if path == "/release":
            self.released.set()
        if request is None or "completions" not in path:
            return await respond(writer, 200, {"status": "ok", "name": self.name})
        fake = request.get("fake", {})
        if "status" in fake:
            return await respond(writer, fake["status"], {"error": {"message": "as asked", "type": "fake", "param": None, "code": None}})
        tokens = words(request)
        prompt = request.get("prompt") or request["messages"][-1]["content"]
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens), "total_tokens": len(prompt) + len(tokens)}
        if not request.get("stream"):
            return await respond(writer, 200, chunk(path, "".join(tokens), "length") | {"usage": usage})
        await self._stream(path, tokens, usage, fake, reader, writer)

    async def _stream(self, path, tokens, usage, fake, reader, writer):
        width = fake.get("bytes_per_write")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")

        async def send(data):
            data = data.encode()
            data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
            for start in range(0, len(data), width or len(data)):
                writer.write(data[start:start + (width or len(data))])
                await writer.drain()
                await asyncio.sleep(0)
        await send(": keep-alive\n\n")
        for n, token in enumerate(tokens):
            if n == 2 and fake.get("hold") and not await self._wait_for_release(reader):
                return
            if fake.get("cut") == n:
                return
            if fake.get("error") == n:
                await send('data: {"error": {"message": "the disk is gone"}}\n\n')
                break
            if fake.get("lost_token") != n:
                await send(f"data: {json.dumps(chunk(path, token))}\n\n")
        else:
            await send(f"data: {json.dumps(chunk(path, '', 'length'))}\n\n")
            if fake.get("lost_token") is not None:
                usage = usage | {"completion_tokens": len(tokens) - 1}
            await send(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n")
        if not fake.get("no_end"):
            await send("data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _wait_for_release(self, reader):
        """False when the client went while it waited."""
        while not self.released.is_set():
            await asyncio.sleep(0.01)
            if reader.at_eof():
                self.gone.set()
                return False
        return True


def words(request):
    """The answer follows from the prompt alone."""
    seed = hashlib.sha256(json.dumps(request.get("prompt") or request["messages"]).encode()).hexdigest()
    return [f" {seed[n % 60:n % 60 + 3]}é" for n in range(request["max_tokens"])]


def chunk(path, text, finish_reason=None):
    content = {"delta": {"content": text}} if "chat" in path else {"text": text}
    return {"id": "x", "choices": [{"index": 0, "finish_reason": finish_reason, **content}]}


async def respond(writer, status, body):
    data = json.dumps(body).encode()
    writer.write(f"HTTP/1.1 {status} Fake\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()
