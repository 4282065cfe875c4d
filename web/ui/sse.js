// Server-sent events from a fetch, which, unlike EventSource, can send a key and a body.

const kLongestLine = 32 << 20;

/**
 * Yields the data of each frame. Comments, names and ids are skipped; lines may end in LF or CRLF; `onBytes` is called
 * whenever something comes.
 */
export async function* frames(stream, onBytes = () => {}) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", data = [];
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      onBytes();
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      if (rest.length > kLongestLine) throw new Error("A line of the stream is longer than 32 MiB.");
      for (const raw of lines) {
        const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
        if (line === "") {
          if (data.length) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
    }
  } finally { reader.cancel().catch(() => {}); }
}
