import { gzipSync } from 'node:zlib'
import { breakDown, breakdownOf } from './breakdown.ts'
import type { FakeCall } from './call.ts'
import type { FakeResponse } from './dialect.ts'
import { ResponseWriter } from './response-writer.ts'

/** Sends a response in one piece. A failure cuts it in the middle. */
export async function sendWhole(call: FakeCall, response: FakeResponse): Promise<void> {
  const { res, options } = call
  const text = JSON.stringify(response.body)
  const bytes = options.isGzip ? gzipSync(text) : Buffer.from(text)
  const breakdown = response.tokens >= options.failAfterTokens ? breakdownOf(options) : undefined
  const writer = new ResponseWriter(call)
  res.setHeader('Content-Type', 'application/json')
  if (options.isGzip) res.setHeader('Content-Encoding', 'gzip')
  if (breakdown === undefined) {
    res.setHeader('Content-Length', bytes.length)
    await writer.write(bytes)
    writer.end()
  } else {
    // Without a length it is chunked, so that garbage can be recognised.
    if (options.failAfterTokens > 0) await writer.write(bytes.subarray(0, bytes.length / 2))
    await breakDown(call, breakdown)
  }
}
