/** One block of server-sent events, up to its blank line. */
export interface EventBlock {
  id?: string;
  event?: string;
  data?: string;
}

/** Parse server-sent events; a block that breaks off is dropped. */
export async function* parseServerSentEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<EventBlock> {
  const decoder = new TextDecoder();
  let text = "";
  let block: EventBlock = {};
  for await (const chunk of chunks) {
    // A CR at the end may be half of a CRLF.
    const lines = (text + decoder.decode(chunk, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        yield block;
        block = {};
        continue;
      }
      const [, name, value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (name === "id" || name === "event") block[name] = value;
      else if (name === "data") block.data = block.data === undefined ? value : `${block.data}\n${value}`;
    }
  }
}
