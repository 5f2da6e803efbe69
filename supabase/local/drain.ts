/** Answering before a request was read to its end, without breaking the connection. */

/** Smaller bodies fit into the socket's buffers, so that nobody waits for them to be read. */
const SMALL_BODY_BYTES = 64 * 1024;
const MAX_DRAINED_BYTES = 4 * 1024 ** 3;
/** Whoever sends slower than this gets no answer for it. */
const MAX_DRAIN_MS = 60_000;

/**
 * Handle a request, and read what the handler left of its body before the answer goes out.
 *
 * Most clients send the whole body before they look for an answer; if nobody reads it they wait, and if the connection
 * is closed they report that instead of the refusal. Clients that asked first (Expect: 100-continue) send nothing.
 */
export async function drained(request: Request, handle: (request: Request) => Promise<Response>): Promise<Response> {
  const length = request.headers.get("content-length");
  const small = length !== null && Number(length) <= SMALL_BODY_BYTES;
  if (!request.body || small || request.headers.has("expect")) return await handle(request);
  const reader = request.body.getReader();
  let finished = false;
  const read = async () => {
    const result = await reader.read();
    finished ||= result.done;
    return result;
  };
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  }, { highWaterMark: 0 });
  const response = await handle(new Request(request.url, { method: request.method, headers: request.headers, body }));
  if (!finished) await Promise.race([readToEnd(read), new Promise((resolve) => setTimeout(resolve, MAX_DRAIN_MS))]);
  return response;
}

async function readToEnd(read: () => Promise<ReadableStreamReadResult<Uint8Array>>): Promise<void> {
  try {
    for (let bytes = 0; bytes < MAX_DRAINED_BYTES;) {
      const { done, value } = await read();
      if (done) return;
      bytes += value.byteLength;
    }
  } catch {
    // The client is gone: there is nobody left to answer.
  }
}
