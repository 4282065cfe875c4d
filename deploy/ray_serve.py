"""Colibri beyond one machine: a Ray Serve deployment whose replicas each run `colibri serve` and pass requests on to it, streams included.

    pip install "ray[serve]"
    COLIBRI_MODEL=/srv/models/model.gguf serve run ray_serve:app           # in this folder
    COLIBRI_MODEL=... RAY_COLIBRI_REPLICAS=4 RAY_COLIBRI_CPUS=8 python ray_serve.py

Ray starts, places, watches and replaces replicas; a replica is ready when its server has loaded the model, ill when that server is gone, and lets
running answers end when it is stopped. A request that carries a session (header serve_multiplexed_model_id, Ray's own name) goes to the replica
that had it before, as long as that one is there; it takes a second or two until all of Ray knows. Settings of the server are its environment
variables (COLIBRI_PARALLEL, ...). Clients' keys are checked by the server: set COLIBRI_API_KEY_FILE on every machine.
"""
import asyncio
import os
import signal
import socket
import subprocess
import time

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import StreamingResponse

PROGRAM = os.environ.get("RAY_COLIBRI_PROGRAM", "colibri")
REPLICAS = int(os.environ.get("RAY_COLIBRI_REPLICAS", "1"))
CPUS = int(os.environ.get("RAY_COLIBRI_CPUS", "1"))
START_SECONDS = int(os.environ.get("RAY_COLIBRI_START_SECONDS", "1800"))
DRAIN_SECONDS = int(os.environ.get("COLIBRI_DRAIN_TIMEOUT", "30"))
IN_FLIGHT = 256  # requests of one replica: the server's own queue says no, with the right status
# Of one connection only, not of the message: those are for each side of a proxy to decide.
HOP_BY_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host",
              "content-length"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def passed_on(headers):
    return [(name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP]


@serve.deployment(num_replicas=REPLICAS, ray_actor_options={"num_cpus": CPUS}, max_ongoing_requests=IN_FLIGHT, health_check_period_s=5,
                  graceful_shutdown_timeout_s=DRAIN_SECONDS + 10)
class Colibri:
    async def __init__(self):
        self.url = f"http://127.0.0.1:{free_port()}"
        port = self.url.rsplit(":", 1)[1]
        self.process = subprocess.Popen([PROGRAM, "serve", "--host", "127.0.0.1", "--port", port], stdin=subprocess.DEVNULL)
        # No time limit: how long an answer may take is between client and server.
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=5), auto_decompress=False)
        await self.wait_until_ready()

    async def wait_until_ready(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            self.check_process()
            try:
                async with self.session.get(self.url + "/ready") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.2)
        raise RuntimeError(f"colibri serve was not ready after {START_SECONDS} s")

    def check_process(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"colibri serve has ended with {self.process.returncode}")

    async def check_health(self):
        """Ray replaces the replica when this raises."""
        self.check_process()
        async with self.session.get(self.url + "/health", timeout=aiohttp.ClientTimeout(total=20)) as answer:
            if answer.status != 200:
                raise RuntimeError(f"/health: {answer.status}")

    @serve.multiplexed(max_num_models_per_replica=4096)
    async def session_of(self, session_id: str):
        """Nothing to load: Ray remembers which replica has had a session and sends it there again."""
        return session_id

    async def __call__(self, request: Request):
        if session := serve.get_multiplexed_model_id():
            await self.session_of(session)
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        answer = await self.session.request(request.method, self.url + path, headers=passed_on(request.headers), data=await request.body())

        async def body():
            # Left early when the client goes: closing the connection is how the server is told.
            try:
                async for piece in answer.content.iter_any():
                    yield piece
            finally:
                answer.close()
        return StreamingResponse(body(), status_code=answer.status, headers=dict(passed_on(answer.headers)))

    def __del__(self):
        process = getattr(self, "process", None)
        if process and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(DRAIN_SECONDS + 5)
            except subprocess.TimeoutExpired:
                process.kill()


app = Colibri.bind()

if __name__ == "__main__":
    serve.run(app, blocking=True)
