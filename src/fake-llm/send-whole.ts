import { gzipSync } from 'node:zlib'
import { AnswerWriter } from './answer-writer.ts'
import { breakDown, breakdownOf } from './breakdown.ts'
import type { Call } from './call.ts'
import type { Answer } from './dialect.ts'

/** An answer in one piece. When it breaks off, it does so in its middle. */
export async function sendWhole(call: Call, answer: Answer): Promise<void> {
  const { res, options } = call
  const text = JSON.stringify(answer.body)
  const bytes = options.isGzip ? gzipSync(text) : Buffer.from(text)
  const breakdown = answer.tokens >= options.failAfterTokens ? breakdownOf(options) : undefined
  const writer = new AnswerWriter(call)
  res.setHeader('Content-Type', 'application/json')
  if (options.isGzip) res.setHeader('Content-Encoding', 'gzip')
  if (breakdown === undefined) {
    res.setHeader('Content-Length', bytes.length)
    await writer.write(bytes)
    writer.end()
  } else {
    // Without a length it goes out in chunks, which garbage can be told from.
    if (options.failAfterTokens > 0) await writer.write(bytes.subarray(0, bytes.length / 2))
    await breakDown(call, breakdown)
  }
}
