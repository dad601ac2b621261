import { createReadStream } from 'node:fs'
import { GrowingBuffer } from '../growing-buffer.ts'

/** A whole file, or a pipe until it ends. Throws when it has more bytes than that: a device has no end. */
export async function readFileBounded(path: string, maxBytes: number): Promise<Buffer> {
  const content = new GrowingBuffer()
  for await (const piece of createReadStream(path, { end: maxBytes })) content.add(piece as Buffer)
  if (content.size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`)
  return content.bytes
}
