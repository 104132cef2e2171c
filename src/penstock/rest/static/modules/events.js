// Server-sent events, read with `fetch` so that a token can travel in a header.

import { headers } from "./api.js";

const RETRY_MS = 5_000;

/**
 * Follows a stream of events until the returned function is called.
 *
 * The data of an event is the name of a document that has changed. Nothing is asked any more once
 * the job has ended, or when the service does not have the route.
 */
export function follow(path, { onOpen, onClose, onEvent }) {
  const stop = new AbortController();
  (async () => {
    while (!stop.signal.aborted) {
      const isThere = await readStream(path, stop.signal, onOpen, onEvent);
      onClose();
      if (!isThere) return;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  })();
  return () => stop.abort();
}

async function readStream(path, signal, onOpen, onEvent) {
  try {
    const sent = await headers({ Accept: "text/event-stream" });
    const answer = await fetch(path, { signal, headers: sent });
    if (!answer.ok) return answer.status >= 500;
    onOpen();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return true;
      const lines = (rest + value).split(/\r\n|\r|\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("event: ended")) return false;
        if (line.startsWith("data:")) onEvent(line.slice(5).trim());
      }
    }
  } catch {
    return true;
  }
}
