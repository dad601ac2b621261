/** A body as it comes, and an end to it when it grows too large. */
export async function readBounded(response: Response, maxBytes: number): Promise<Buffer> {
  const tooLarge = (): Error => new Error(`its body has more than ${maxBytes} bytes`)
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge()
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > maxBytes) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
