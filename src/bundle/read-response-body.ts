import { GrowingBuffer } from '../growing-buffer.ts'

/** Reads a response's body. Throws as soon as it has more bytes than allowed. */
export async function readResponseBody(response: Response, maxBytes: number): Promise<Buffer> {
  const tooLarge = (): Error => new Error(`its body has more than ${maxBytes} bytes`)
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge()
  const body = new GrowingBuffer()
  for await (const chunk of response.body ?? []) {
    body.add(chunk)
    if (body.size > maxBytes) throw tooLarge()
  }
  return body.bytes
}
