"""From what the clients saw to numbers: requests, their percentiles, throughput, errors, and how late the client itself was."""
import collections

import disk
import http_stream

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def percentiles(values):
    return {name: disk.percentile(values, share) for name, share in SHARES.items()}


def fault(ask, answer):
    """What is missing in an answer that came back whole; None when nothing is."""
    tokens = (answer.usage or {}).get("completion_tokens")
    if not answer.done:
        return "the stream ended without [DONE]"
    if answer.finish_reason not in ("stop", "length", "tool_calls"):
        return f"finish reason {answer.finish_reason}"
    if tokens is None:
        return "no usage"
    if tokens > ask.max_tokens or answer.finish_reason == "length" and tokens != ask.max_tokens:
        return f"{tokens} tokens, asked for {ask.max_tokens}, finish reason {answer.finish_reason}"
    if len(answer.token_times) > tokens:
        return f"{len(answer.token_times)} pieces of text, but usage counts {tokens} tokens"
    return None


def request(ask, exchange, started):
    """One request as numbers. A failed one has an error, and times only as far as it came."""
    row = {"kind": ask.kind, "at": exchange.sent - started, "seconds": exchange.ended - exchange.sent, "max_tokens": ask.max_tokens}
    try:
        answer = http_stream.answer(exchange)
    except http_stream.Broken as broken:
        return row | {"error": str(broken), "status": exchange.status, "tokens": 0, "gaps": []}
    usage, times = answer.usage or {}, answer.token_times
    row |= {"error": fault(ask, answer), "status": exchange.status, "finish_reason": answer.finish_reason,
            "prompt_tokens": usage.get("prompt_tokens"), "cached_tokens": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
            "tokens": usage.get("completion_tokens") or 0, "gaps": [b - a for a, b in zip(times, times[1:])]}
    if times:
        row["first_token"] = times[0] - exchange.sent
    return row


def summary(requests):
    """Percentiles over all requests without errors; rates over the time from the first request to the last answer."""
    good = [row for row in requests if not row["error"]]
    span = max((row["at"] + row["seconds"] for row in requests), default=0) - min((row["at"] for row in requests), default=0)
    errors = collections.Counter(row["error"] for row in requests if row["error"])
    return {"requests": len(requests), "errors": sum(errors.values()), "error_texts": dict(errors.most_common(10)),
            "first_token_seconds": percentiles([row["first_token"] for row in good if "first_token" in row]),
            "inter_token_seconds": percentiles([gap for row in good for gap in row["gaps"]]),
            "request_seconds": percentiles([row["seconds"] for row in good]),
            "seconds": span, "requests_per_second": len(good) / span if span else 0.0,
            "tokens_per_second": sum(row["tokens"] for row in good) / span if span else 0.0,
            "prompt_tokens_per_second": sum(row["prompt_tokens"] or 0 for row in good) / span if span else 0.0}


def result(records, started, overslept, late, cpu_seconds):
    requests = sorted((request(ask, exchange, started) for ask, exchange in records), key=lambda row: row["at"])
    kinds = sorted({row["kind"] for row in requests})
    return {"summary": summary(requests), "kinds": {kind: summary([row for row in requests if row["kind"] == kind]) for kind in kinds},
            "client": {"lag_seconds": percentiles(overslept), "late_arrival_seconds": percentiles(late), "cpu_seconds": cpu_seconds},
            "requests": requests}


def steady_rate(answers):
    """Tokens per second of several streams together while all of them are under way: from the last one's first token to the first one's last."""
    start, end = max(times[0] for times in answers), min(times[-1] for times in answers)
    if end <= start:
        return None
    return sum(start < at <= end for times in answers for at in times) / (end - start)


def milliseconds(numbers):
    return "  ".join(f"{name} {1e3 * value:.1f}" for name, value in numbers.items())


def text(result):
    def lines(title, part):
        yield (f"{title}: {part['requests']} requests, {part['errors']} errors, {part['requests_per_second']:.3g} requests/s, "
               f"{part['tokens_per_second']:.4g} tokens/s, {part['prompt_tokens_per_second']:.4g} prompt tokens/s")
        for name, key in (("first token", "first_token_seconds"), ("between tokens", "inter_token_seconds"), ("whole request", "request_seconds")):
            yield f"  {name + ', ms':20} {milliseconds(part[key])}"
        yield from (f"  {count} x {error}" for error, count in part["error_texts"].items())
    parts = list(lines("all", result["summary"]))
    for kind, part in result["kinds"].items():
        if len(result["kinds"]) > 1:
            parts += lines(kind, part)
    client = result["client"]
    parts.append(f"this client was late by, ms: {milliseconds(client['lag_seconds'])}; it used {client['cpu_seconds']:.1f} s of a processor")
    return "\n".join(parts)
