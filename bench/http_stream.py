"""One HTTP request over a plain socket, its answer kept as it arrived: every piece of the body with the time at which the socket gave it.

While answers come only the framing is looked at, so that one process keeps up with many streams; answer() reads the rest afterwards.
"""
import asyncio
import json
import ssl
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


class Broken(Exception):
    """What came back is no HTTP response, or it ended too early."""


class Framing:
    """Takes the bytes of one response apart: its head, then the pieces of its body, until `done`."""

    def __init__(self):
        self.status, self.headers, self.done = None, {}, False
        self._buffer, self._left, self._read = bytearray(), 0, self._head

    def feed(self, data):
        """The part of the body that these bytes bring."""
        self._buffer += data
        body = bytearray()
        while not self.done and self._read(body):
            pass
        return bytes(body)

    def closed(self):
        """The other side has closed: fine only where that ends the body."""
        if self._read == self._rest:
            self.done = True
        if not self.done:
            raise Broken("the connection was closed before the answer ended")

    def _head(self, body):
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[:end + 4]
        words = first.split(" ", 2)
        if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            raise Broken(f"no HTTP response: {first[:80]!r}")
        self.status = int(words[1])
        if self.status == 100:
            return True
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._choose_body()
        return True

    def _choose_body(self):
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._read = self._chunk_size
        elif "content-length" in self.headers:
            self._left, self._read = int(self.headers["content-length"]), self._known
            self.done = self._left == 0
        elif self.status in (204, 304):
            self.done = True
        else:
            self._read = self._rest

    def _take(self, body):
        piece = self._buffer[:self._left]
        del self._buffer[:len(piece)]
        self._left -= len(piece)
        body += piece
        return self._left == 0

    def _known(self, body):
        self.done = self._take(body)
        return self.done

    def _rest(self, body):
        self._left = len(self._buffer)
        self._take(body)
        return False

    def _line(self):
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[:end + 2]
        return line

    def _chunk_size(self, _):
        line = self._line()
        if line is None:
            return False
        try:
            self._left = int(line.split(b";")[0], 16)
        except ValueError:
            raise Broken(f"no chunk size: {line[:40]!r}") from None
        self._read = self._chunk if self._left else self._trailer
        return True

    def _chunk(self, body):
        if not self._take(body):
            return False
        self._read = self._after_chunk
        return True

    def _after_chunk(self, _):
        if len(self._buffer) < 2:
            return False
        if self._line() != b"":
            raise Broken("a chunk is longer than it said")
        self._read = self._chunk_size
        return True

    def _trailer(self, _):
        line = self._line()
        self.done = line == b""
        return bool(line)


@dataclass
class Exchange:
    """A request's fate. Times are those of time.monotonic()."""
    sent: float = 0.0  # before the connection was opened
    head_at: float | None = None
    ended: float = 0.0
    status: int | None = None
    headers: dict = field(default_factory=dict)
    pieces: list = field(default_factory=list)  # (time, bytes)
    failure: str | None = None

    @property
    def body(self):
        return b"".join(data for _, data in self.pieces)


class Stream(asyncio.Protocol):
    """The connection of one request. `on_piece` is called after every piece, with the exchange and the transport."""

    def __init__(self, request, on_piece=None):
        self.exchange, self.framing = Exchange(), Framing()
        self.request, self.on_piece, self.transport = request, on_piece, None
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        now, exchange = time.monotonic(), self.exchange
        try:
            piece = self.framing.feed(data)
        except Broken as broken:
            return self._finish(str(broken))
        if self.framing.status is not None and exchange.status is None and self.framing.status != 100:
            exchange.head_at, exchange.status, exchange.headers = now, self.framing.status, self.framing.headers
        if piece:
            exchange.pieces.append((now, piece))
            if self.on_piece:
                self.on_piece(exchange, self.transport)
        if self.framing.done:
            self._finish(None)

    def connection_lost(self, error):
        if self.finished.done():
            return
        try:
            self.framing.closed()
            self._finish(None)
        except Broken as broken:
            self._finish(str(error or broken))

    def _finish(self, failure):
        self.exchange.failure, self.exchange.ended = failure, time.monotonic()
        if not self.finished.done():
            self.finished.set_result(None)
        self.transport.abort() if failure else self.transport.close()


class Target:
    """A server, and how requests to it look."""

    def __init__(self, url, headers=None):
        parts = urlsplit(url)
        self.tls = parts.scheme == "https"
        self.host, self.port = parts.hostname, parts.port or (443 if self.tls else 80)
        self.prefix, self.headers = parts.path.rstrip("/"), headers or {}

    def request(self, method, path, body=None, headers=None):
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {self.host}:{self.port}", "Connection: close"]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (self.headers | (headers or {})).items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + data

    async def send(self, method, path, body=None, *, headers=None, timeout=600, on_piece=None, socket=None):
        """The exchange, whatever became of it; raises only when cancelled, and the connection is gone then."""
        loop, sent = asyncio.get_running_loop(), time.monotonic()
        place = {"sock": socket} if socket else {"host": self.host, "port": self.port}
        stream = None
        try:
            async with asyncio.timeout(timeout):
                _, stream = await loop.create_connection(lambda: Stream(self.request(method, path, body, headers), on_piece),
                                                         ssl=ssl.create_default_context() if self.tls else None, **place)
                stream.exchange.sent = sent
                await stream.finished
        except OSError as error:
            return Exchange(sent=sent, ended=time.monotonic(), failure=f"no connection: {error}")
        except TimeoutError:
            exchange = stream.exchange if stream else Exchange(sent=sent)
            exchange.failure, exchange.ended = f"no end after {timeout} s", time.monotonic()
            return exchange
        finally:
            if stream and not stream.finished.done():
                stream.transport.abort()
        return stream.exchange


# ---- what an answer says -------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """An OpenAI answer, streamed or not."""
    text: str = ""
    token_times: list = field(default_factory=list)  # of every chunk that brings text or a part of a tool call
    finish_reason: str | None = None
    usage: dict | None = None
    done: bool = False  # "data: [DONE]" came; of an answer in one piece: it is whole JSON
    comments: int = 0  # keep-alive lines
    extra: dict = field(default_factory=dict)  # other top-level members, the last value of each
    logprobs: list = field(default_factory=list)  # the choices' logprobs, as they came


def frames(pieces, whole=True):
    """(time, frame) of every frame of an event stream: the time of the piece that completed it. `whole`: half a frame at the end is a fault."""
    rest = b""
    for at, data in pieces:
        rest += data.replace(b"\r\n", b"\n")
        *complete, rest = rest.split(b"\n\n")
        yield from ((at, frame.decode()) for frame in complete)
    if whole and rest.strip():
        raise Broken(f"the stream ends inside a frame: {rest[:80]!r}")


def answer(exchange):
    """Raises Broken when the server's answer is none: an error, half a stream, no JSON."""
    if exchange.failure:
        raise Broken(exchange.failure)
    if exchange.status != 200:
        raise Broken(f"status {exchange.status}: {exchange.body[:300].decode(errors='replace')}")
    result = Answer()
    try:
        if "event-stream" in exchange.headers.get("content-type", ""):
            _read_stream(result, exchange.pieces)
        else:
            _add(result, json.loads(exchange.body), exchange.ended)
            result.done = True
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Broken(f"an answer that no client understands: {error!r}") from error
    return result


def so_far(exchange):
    """The answer as far as it came, of a stream that was left or cut."""
    result = Answer()
    if exchange.status == 200:
        _read_stream(result, exchange.pieces, whole=False)
    return result


def _read_stream(result, pieces, whole=True):
    for at, frame in frames(pieces, whole):
        for line in frame.split("\n"):
            if line.startswith(":"):
                result.comments += 1
            elif line.startswith("data:"):
                data = line[5:].strip()
                if result.done:
                    raise Broken("data after [DONE]")
                if data == "[DONE]":
                    result.done = True
                else:
                    _add(result, json.loads(data), at)


def _add(result, chunk, at):
    if chunk.get("error"):
        raise Broken(f"error in the stream: {json.dumps(chunk['error'])[:300]}")
    result.usage = chunk.get("usage") or result.usage
    result.extra |= {key: value for key, value in chunk.items() if key not in ("choices", "usage")}
    for choice in chunk["choices"]:
        part = choice.get("delta") or choice.get("message") or {}
        text = choice.get("text") or part.get("content") or part.get("reasoning_content") or ""
        result.text += text
        if choice.get("logprobs"):
            result.logprobs.append(choice["logprobs"])
        if choice.get("finish_reason"):
            result.finish_reason = choice["finish_reason"]
        if text or part.get("tool_calls"):
            result.token_times.append(at)
