import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { GrowingBuffer } from '../growing-buffer.ts'

/** A whole file, or a pipe until it ends. Throws when it has more bytes than that: a device has no end. */
export function readFileBounded(path: string, maxBytes: number): Promise<Buffer> {
  return readBounded(createReadStream(path, { end: maxBytes }), maxBytes)
}

/** The same for a stream of bytes. */
export async function readBounded(stream: Readable, maxBytes: number): Promise<Buffer> {
  const content = new GrowingBuffer()
  for await (const piece of stream) {
    content.add(piece as Buffer)
    if (content.size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`)
  }
  return content.bytes
}
