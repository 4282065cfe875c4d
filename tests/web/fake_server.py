#!/usr/bin/env python3
"""A server for the page's tests: the real page and headers, answers that follow a script, an expert stream that is made up.

    tests/web/fake_server.py [PORT]      to look at the page without a model; say "story", "tools", "slow", ... to it

What the last user message contains decides the answer (see SCRIPTS). Standard library only.
"""

import base64
import http.server
import json
import math
import random
import re
import socket
import struct
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "".join(
    re.findall(
        r'"([^"]*)"',
        re.search(r"kPageSecurityPolicy =(.*?);\n\n", (ROOT / "apps/server/assets.h").read_text(), re.S)[1],
    )
)
LAYERS, EXPERTS, TOP_K, FIRST_LAYER = 24, 64, 8, 1
GIB = 1 << 30

STORY = """## The hummingbird and the clock

A **hummingbird** named *Iris* lived behind the station clock. Every morning she counted its ticks, and every evening she found one missing.

1. First she asked the swallows.
2. Then she asked the rain, which said `tick`, politely, twice.
   - It was not sure about the second one.

> Time is not lost, said the clock. It only nests elsewhere.

```python
def beats(seconds, rate=50):
    \"\"\"Wing beats in some seconds.\"\"\"
    return seconds * rate  # an estimate

print(beats(60))
```

| bird | beats a second | weight |
|:-----|---------------:|-------:|
| bee hummingbird | 80 | 2 g |
| giant hummingbird | 12 | 24 g |

So she stayed, and the hours were full again. More at [the station](https://example.org/station).
"""
THOUGHT = (
    "The user wants a story. Something small, with a bird in it. I should keep the list short and show a little code."
)


def words(text):
    return re.findall(r"\S+\s*|\s+", text)


def activations(rng):
    return {
        "layers": [
            {
                "layer": FIRST_LAYER + layer,
                "experts": sorted(
                    ([rng.randrange(EXPERTS), rng.randrange(1, 40)] for _ in range(12)), key=lambda pair: -pair[1]
                ),
            }
            for layer in range(LAYERS)
        ]
    }


class Scripts:
    """What is said, chosen by a word in the last message: each yields chunks' members, or raises, or stops early."""

    def __init__(self, state):
        self.state = state

    def story(self, _):
        for word in words(THOUGHT):
            yield {"reasoning_content": word}
        for word in words(STORY):
            yield {"content": word}
        yield {"finish": "stop"}

    def endless(self, _):
        for number in range(100000):
            yield {"content": f"word{number} "}
            time.sleep(0.02)

    def tools(self, request):
        if request["messages"][-1]["role"] == "tool":
            yield {"content": "It says: " + "; ".join(m["content"] for m in request["messages"] if m["role"] == "tool")}
            yield {"finish": "stop"}
            return
        for index, (name, arguments) in enumerate(
            [("weather", '{"city": "Quito"}'), ("time", '{"zone": "America/Guayaquil"}')]
        ):
            yield {
                "tool_calls": [
                    {
                        "index": index,
                        "id": f"call_{index}",
                        "type": "function",
                        "function": {"name": name, "arguments": ""},
                    }
                ]
            }
            for part in words(arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
        yield {"finish": "tool_calls"}

    def slow(self, _):
        yield {"queue_position": 2}
        if self.state.gate:
            self.state.gate.wait(20)
            self.state.gate.clear()
        for done in range(256, 2049, 256):
            yield {"prompt_progress": {"total": 2048, "cache": 256, "processed": done, "time_ms": (done - 256) * 3}}
            if done == 1024 and self.state.gate:
                self.state.gate.wait(20)
            time.sleep(0.2)
        yield {"content": "Read it all."}
        yield {"finish": "stop"}

    def truncated(self, _):
        yield {"content": "This answer is cut"}
        yield {"finish": "length"}

    def overflow(self, _):
        raise Refusal(
            400,
            {
                "message": "This model's maximum context length is 8192 tokens, but the prompt has 9000 tokens and 100 are asked for.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            },
        )

    def busy(self, _):
        raise Refusal(
            429,
            {
                "message": "The queue is full: 64 requests wait.",
                "type": "rate_limit_error",
                "param": None,
                "code": "queue_full",
            },
            {"Retry-After": "3"},
        )

    def broken(self, _):
        yield {"content": "Half an answer"}
        yield {
            "error": {
                "message": "expert 3 of layer 7 could not be read from model.gguf at 4096: Input/output error",
                "type": "server_error",
                "param": None,
                "code": "io_error",
            }
        }

    def disconnect(self, _):
        yield {"content": "Then the line went"}
        yield {"hang_up": True}

    def echo(self, request):
        yield {"content": request["messages"][-1]["content"].split("echo ", 1)[1]}
        yield {"finish": "stop"}

    def hello(self, request):
        yield {"content": f"Hello, message {len(request['messages'])}."}
        yield {"finish": "stop"}


class Refusal(Exception):
    def __init__(self, status, error, headers=None):
        super().__init__(error["message"])
        self.status, self.error, self.headers = status, error, headers or {}


class Experts:
    """Activity that looks like a model's: some experts are favourites, the cache holds the hot ones."""

    def __init__(self):
        self.rng = random.Random(7)
        self.weights = [[math.exp(self.rng.gauss(0, 1.1)) for _ in range(EXPERTS)] for _ in range(LAYERS)]
        self.total = [0] * (LAYERS * EXPERTS)
        cut = [sorted(row, reverse=True)[int(EXPERTS * 0.55)] for row in self.weights]
        self.resident = [w > cut[layer] for layer, row in enumerate(self.weights) for w in row]
        for cell in range(LAYERS * EXPERTS):
            self.total[cell] = int(400 * self.weights[cell // EXPERTS][cell % EXPERTS])

    def bits(self, flags):
        out = bytearray((len(flags) + 7) // 8)
        for i, flag in enumerate(flags):
            out[i // 8] |= bool(flag) << i % 8
        return base64.b64encode(out).decode()

    def frame(self, first):
        fresh = [0] * (LAYERS * EXPERTS)
        hits = 0
        for layer in range(0 if not first else LAYERS, LAYERS):
            for expert in self.rng.choices(range(EXPERTS), self.weights[layer], k=TOP_K):
                fresh[layer * EXPERTS + expert] += 1
                hits += self.resident[layer * EXPERTS + expert]
        self.total = [a + b for a, b in zip(self.total, fresh)]
        reading = [n > 0 and not here for n, here in zip(fresh, self.resident)]
        frame = {
            "layers": LAYERS,
            "experts": EXPERTS,
            "activations": base64.b64encode(struct.pack(f"<{len(fresh)}H", *fresh)).decode(),
            "resident": self.bits(self.resident),
            "reading": self.bits(reading),
        }
        rate = None if first else hits / (LAYERS * TOP_K)
        frame.update(
            hit_rate=rate,
            bytes_per_token=None if first else int((1 - rate) * LAYERS * TOP_K * 2.4e6),
            tokens_per_second=None if first else 9 + self.rng.random(),
            read_bytes_per_second=3.1e8,
        )
        if first:
            frame.update(
                layer_numbers=list(range(FIRST_LAYER, FIRST_LAYER + LAYERS)),
                top_k=TOP_K,
                bytes_per_expert=2400000,
                total=base64.b64encode(struct.pack(f"<{len(fresh)}I", *self.total)).decode(),
            )
        return frame


def props():
    return {
        "model_alias": "qwen3-30b-a3b",
        "build_info": "colibri 0.1.0 (5301bf2)",
        "total_slots": 8,
        "default_generation_settings": {
            "n_ctx": 8192,
            "params": {
                "temperature": 0.7,
                "top_p": 0.8,
                "top_k": 20,
                "min_p": 0,
                "repetition_penalty": 1,
                "presence_penalty": 0,
                "frequency_penalty": 0,
            },
        },
        "model": {
            "family": "qwen3_moe",
            "n_layers": LAYERS + FIRST_LAYER,
            "n_moe_layers": LAYERS,
            "n_experts": EXPERTS,
            "top_k": TOP_K,
            "context": 8192,
            "isa": "avx2",
            "threads": 8,
            "io": "direct",
        },
        "plan": {"bytes_per_token": int(1.9 * GIB)},
        "settings": [
            {"key": "memory", "value": "8G", "from": "flag"},
            {"key": "context", "value": 8192, "from": "flag"},
            {"key": "parallel", "value": 8, "from": "default"},
            {"key": "kv_type", "value": "f16", "from": "environment"},
            {"key": "expert_cache_policy", "value": "auto", "from": "default"},
        ],
    }


def histogram(name, bounds, counts):
    lines, total = [f"# TYPE colibri_{name} histogram"], 0
    for bound, n in zip([*bounds, "+Inf"], counts):
        total += n
        lines.append(f'colibri_{name}_bucket{{le="{bound}"}} {total}')
    return [*lines, f"colibri_{name}_sum 12.5", f"colibri_{name}_count {total}"]


def metrics(step):
    lines = histogram("time_to_first_token_seconds", [0.1, 0.25, 0.5, 1, 2.5], [0, 12, 60, 20, 7, 1])
    lines += histogram("inter_token_seconds", [0.05, 0.1, 0.2, 0.5], [100, 8000, 300, 12, 0])
    lines += histogram("queue_seconds", [0.01, 0.1, 1], [80, 15, 5, 0])
    lines += histogram("request_seconds", [1, 5, 10, 30], [4, 50, 40, 6, 0])
    values = {
        "requests_running": 3,
        "requests_waiting": 1,
        "generated_tokens_total": 8412 + 24 * step,
        "prompt_tokens_total": 51200,
        "prompt_tokens_cached_total": 30100,
        "expert_hits_total": 905113 + 1800 * step,
        "expert_misses_total": 61240 + 120 * step,
        "expert_read_bytes_total": 147 * GIB + step * 700000000,
        "expert_wait_seconds_total": 512.4,
        'http_requests_total{route="/v1/chat/completions",status="200"}': 96,
        'http_requests_total{route="/v1/chat/completions",status="429"}': 2,
        'expert_read_errors_total{kind="failed"}': 0,
        "kv_positions": 5210,
        "experts_resident": 840,
        "expert_slots": 850,
        "memory_budget_bytes": 8 * GIB,
        "process_resident_memory_bytes": int(7.4 * GIB),
    }
    values |= {
        f'memory_planned_bytes{{purpose="{purpose}"}}': int(gib * GIB)
        for purpose, gib in [("dense", 1.3), ("experts", 5.2), ("kv", 0.75), ("prefixes", 0.5), ("workspace", 0.35), ("rest", 0.05)]
    }
    values |= {
        f'step_cause_seconds_total{{cause="{cause}"}}': seconds
        for cause, seconds in [("compute", 512.5), ("expert_wait", 96.25), ("prefill", 240)]
    }
    return (
        "\n".join(
            lines
            + [
                f"{name if name.startswith('process_') else 'colibri_' + name} {value}"
                for name, value in values.items()
            ]
        )
        + "\n"
    )


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def state(self):
        return self.server.state

    def send(self, status, content_type, body, headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in [("Content-Type", content_type), ("Content-Length", str(len(body))), *dict(headers).items()]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, value, status=200, headers=()):
        self.send(status, "application/json", json.dumps(value), headers)

    def refused(self):
        if not self.state.key or self.headers.get("Authorization") == f"Bearer {self.state.key}":
            return False
        self.send_json(
            {
                "error": {
                    "message": "A valid API key is needed: Authorization: Bearer KEY.",
                    "type": "authentication_error",
                    "param": None,
                    "code": "invalid_api_key",
                }
            },
            401,
        )
        return True

    def page(self, path):
        file = ROOT / "web" / ("index.html" if path == "/" else path[1:])
        if file.suffix not in TYPES or not file.is_file() or ".." in path:
            return self.send_json(
                {
                    "error": {
                        "message": f"There is no {path} here.",
                        "type": "not_found_error",
                        "param": None,
                        "code": "not_found",
                    }
                },
                404,
            )
        return self.send(
            200,
            TYPES[file.suffix],
            file.read_bytes(),
            {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"},
        )

    def do_GET(self):
        path = self.path.partition("?")[0]
        self.state.log.append((self.command, path, None))
        if path == "/" or path.startswith("/ui/"):
            return self.page(path)
        if path == "/health":
            if self.state.loading:
                return self.send_json(
                    {
                        "status": "loading",
                        "progress": {"done_bytes": int(2.5 * GIB), "total_bytes": 5 * GIB, "seconds": 7},
                        "error": {
                            "message": "The model is being loaded.",
                            "type": "unavailable_error",
                            "code": "loading",
                        },
                    },
                    503,
                )
            return self.send_json({"status": "ok"})
        if self.refused():
            return None
        if path == "/v1/models":
            return self.send_json({"object": "list", "data": [{"id": self.state.model, "object": "model"}]})
        if path == "/props":
            return self.send_json(self.state.props or props())
        if path == "/metrics":
            self.state.scrapes += 1
            return self.send(200, "text/plain; version=0.0.4", self.state.metrics or metrics(self.state.scrapes))
        if path == "/v1/experts/stream" and self.state.experts:
            return self.stream(self.expert_frames())
        return self.page(path)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.state.log.append((self.command, self.path, body))
        if self.refused():
            return None
        said = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
        name = next(
            (name for name in dir(Scripts) if name[0] != "_" and callable(getattr(Scripts, name)) and name in said),
            "hello",
        )
        try:
            steps = getattr(Scripts(self.state), name)(body)
            first = next(steps)
        except Refusal as refusal:
            return self.send_json(
                {"error": refusal.error}, refusal.status, {**refusal.headers, "x-request-id": "req-17"}
            )
        return self.stream(self.chat_frames(body, first, steps))

    def expert_frames(self):
        yield self.state.activity.frame(True)
        while True:
            time.sleep(self.state.frame_seconds)
            yield self.state.activity.frame(False)

    def chat_frames(self, request, first, steps):
        usual = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": self.state.model}
        chunk = lambda delta, finish=None, **more: {
            **usual,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            **more,
        }
        yield chunk({"role": "assistant", "content": ""})
        made = 0
        step = first
        while step is not None:
            if "error" in step:
                yield {"error": step["error"]}
                return
            if "hang_up" in step:
                return
            if "finish" in step:
                yield chunk({}, step["finish"])
                break
            extra = {name: step.pop(name) for name in ("prompt_progress", "queue_position") if name in step}
            made += bool(step)
            yield chunk(step, **extra)
            time.sleep(self.state.token_seconds)
            step = next(steps, None)
        usage = {
            "prompt_tokens": 1312,
            "completion_tokens": made,
            "total_tokens": 1312 + made,
            "prompt_tokens_details": {"cached_tokens": 1024},
        }
        yield {**usual, "choices": [], "usage": usage, "expert_activations": activations(random.Random(made))}
        yield "[DONE]"

    def stream(self, frames):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for frame in frames:
                data = frame if isinstance(frame, str) else json.dumps(frame, ensure_ascii=False)
                self.wfile.write(f": keep-alive\n\ndata: {data}\n\n".encode())
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.state.gone += 1


class State:
    def __init__(self):
        self.key, self.loading, self.experts, self.model = "", False, True, "qwen3-30b-a3b"
        self.token_seconds, self.frame_seconds = 0.002, 0.1
        self.props = self.metrics = None  # instead of the usual ones
        self.gate = None  # an Event: a slow prompt waits for it, at its start and in the middle
        self.log, self.gone, self.scrapes, self.activity = [], 0, 0, Experts()

    def requests(self):
        return [body for method, path, body in self.log if path == "/v1/chat/completions"]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.block_on_close = False  # streams end when the browser hangs up
        self.state, self.connections = State(), []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"

    def get_request(self):
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def stop(self):
        self.shutdown()
        self.server_close()
        for connection in self.connections:  # those that the browser keeps would still be answered
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has gone

    def handle_error(self, *_):  # browsers hang up
        pass

    def start(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self


if __name__ == "__main__":
    server = Server(int(sys.argv[1]) if len(sys.argv) > 1 else 8099)
    server.state.token_seconds = 0.03
    print(server.url, flush=True)
    server.serve_forever()
