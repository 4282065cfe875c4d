"""What the tests of the API share: chats, streams of events, and a server that answers slowly enough to be watched."""
import contextlib
import http.client
import json
import threading

from server.server import TIMEOUT, Answer


def chat(text, **members):
    """The body of a chat with one message of the user."""
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24} | members


class Events:
    """A stream of server-sent events. Iterating gives (event's name or None, data as text); comments are counted."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.response, self.comments, self.raw = response, 0, b""

    def __iter__(self):
        name, data = None, []
        for line in self.response:
            self.raw += line
            line = line.decode("utf-8")  # strict, as clients do it
            assert line.endswith("\n") and "\r" not in line, line
            line = line[:-1]
            if line == "":
                if data:
                    yield name, "\n".join(data)
                name, data = None, []
            elif line.startswith(":"):
                self.comments += 1
            elif line.startswith("event: "):
                name = line[7:]
            else:
                assert line.startswith("data: "), line
                data.append(line[6:])

    def chunks(self):
        """JSON of every event, after checking that the stream ends with [DONE]."""
        texts = [data for _, data in self]
        assert texts[-1] == "[DONE]", texts[-3:]
        return [json.loads(text) for text in texts[:-1]]


@contextlib.contextmanager
def stream(server, path, body, headers=None):
    """Events of a POST (of a GET without a body)."""
    connection = http.client.HTTPConnection(*server.address, timeout=TIMEOUT)
    try:
        if body is None:
            connection.request("GET", path, headers=headers or {})
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"} | (headers or {}))
        response = connection.getresponse()
        if response.getheader("content-type", "").startswith("text/event-stream"):
            yield Events(response)
        else:
            raise AssertionError(Answer(response.status, dict(response.getheaders()), response.read()))
    finally:
        connection.close()


def streamed_text(chunks, choice=0):
    return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"] if c["index"] == choice)


def at_once(calls):
    """The results of functions that run at the same time; the first exception is raised."""
    results, errors = [None] * len(calls), []

    def run(i, call):
        try:
            results[i] = call()
        except BaseException as error:  # of another thread: reported below
            errors.append(error)
    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
