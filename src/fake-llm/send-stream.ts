import { setTimeout as sleep } from 'node:timers/promises'
import { breakDown, breakdownOf, FAILURE_MESSAGE } from './breakdown.ts'
import type { FakeCall } from './call.ts'
import type { StreamDialect, StreamEvent } from './dialect.ts'
import { sseEventText } from './event-text.ts'
import type { FakeLlmOptions } from './options.ts'
import { PiecewiseGzip } from './piecewise-gzip.ts'
import type { Asked } from './prompt.ts'
import { ResponseWriter } from './response-writer.ts'

/** Sends event after event, to the last one or to the failure. */
export async function sendStream(call: FakeCall, dialect: StreamDialect, asked: Asked): Promise<void> {
  const { res, options, signal } = call
  res.setHeader('Content-Type', 'text/event-stream; charset=utf-8')
  res.setHeader('Cache-Control', 'no-cache')
  if (options.isGzip) res.setHeader('Content-Encoding', 'gzip')
  const writer = new ResponseWriter(call)
  const gzip = options.isGzip ? new PiecewiseGzip() : undefined
  try {
    for (const event of untilFailure(dialect, asked, options)) {
      if (event === BREAK) return await breakDown(call, breakdownOf(options)!)
      if (res.headersSent && options.tokenMs > 0) await sleep(options.tokenMs, undefined, { signal })
      const bytes = Buffer.from(sseEventText(event, options.lineEnd))
      await writer.write(gzip === undefined ? bytes : await gzip.write(bytes))
    }
    if (gzip !== undefined) await writer.write(await gzip.end())
    writer.end()
  } finally {
    gzip?.destroy()
  }
}

/** Here the connection breaks. */
const BREAK = Symbol('break')

function* untilFailure(dialect: StreamDialect, asked: Asked, options: FakeLlmOptions): Generator<StreamEvent | typeof BREAK> {
  let tokens = 0
  let count = 0
  for (const event of dialect.events(asked, options)) {
    if (options.fail !== 'none' && tokens >= options.failAfterTokens) {
      yield options.fail === 'error-event' ? dialect.errorEvent(count, FAILURE_MESSAGE) : BREAK
      return
    }
    yield event
    tokens += event.tokens
    count++
  }
}
