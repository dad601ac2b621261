import { once } from 'node:events'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { createGzip, gzipSync } from 'node:zlib'
import type { Asked, FakeCall } from './call.ts'
import type { FakeResponse, StreamDialect, StreamEvent } from './dialect.ts'
import { type FakeLlmOptions, LINE_ENDS, type LineEnd } from './flags.ts'

/** How the events of a stream are written: as server-sent events, or as the members of a JSON list. */
export type Framing = 'sse' | 'list'

const CONTENT_TYPES = { sse: 'text/event-stream; charset=utf-8', list: 'application/json; charset=utf-8' } as const

/** Sends one event after another, up to the last one or to the failure. */
export async function sendStream(call: FakeCall, dialect: StreamDialect, asked: Asked, framing: Framing): Promise<void> {
  const { res, options, signal } = call
  res.setHeader('Content-Type', CONTENT_TYPES[framing])
  res.setHeader('Cache-Control', 'no-cache')
  if (options.isGzip) res.setHeader('Content-Encoding', 'gzip')
  const writer = new ResponseWriter(call)
  const gzip = options.isGzip ? new PiecewiseGzip() : undefined
  const write = async (text: string): Promise<void> => {
    const bytes = Buffer.from(text)
    await writer.write(gzip === undefined ? bytes : await gzip.write(bytes))
  }
  let isFirst = true
  try {
    for (const event of untilFailure(dialect, asked, call)) {
      if (event === BREAK) return await breakDown(call, breakdownOf(options)!)
      if (res.headersSent && options.tokenMs > 0) await sleep(options.tokenMs, undefined, { signal })
      await write(framing === 'sse' ? sseEventText(event, options.lineEnd) : memberText(event, isFirst))
      isFirst = false
      call.noteSent(event.tokens)
    }
    if (framing === 'list') await write(isFirst ? '[]' : ']')
    if (gzip !== undefined) await writer.write(await gzip.end())
    writer.end()
  } finally {
    gzip?.destroy()
  }
}

/** Marks the point where the connection breaks. */
const BREAK = Symbol('break')

function* untilFailure(dialect: StreamDialect, asked: Asked, call: FakeCall): Generator<StreamEvent | typeof BREAK> {
  const { options } = call
  let tokens = 0
  let count = 0
  for (const event of dialect.events(asked, options)) {
    if (options.fail !== 'none' && tokens >= options.failAfterTokens) {
      call.noteFailure()
      yield options.fail === 'error-event' ? dialect.errorEvent(count, FAILURE_MESSAGE) : BREAK
      return
    }
    yield event
    tokens += event.tokens
    count++
  }
}

/** Sends a response in one piece. A failure cuts it in the middle. */
export async function sendWhole(call: FakeCall, response: FakeResponse): Promise<void> {
  const { res, options } = call
  const text = JSON.stringify(response.body)
  const bytes = options.isGzip ? gzipSync(text) : Buffer.from(text)
  const breakdown = response.tokens >= options.failAfterTokens ? breakdownOf(options) : undefined
  const writer = new ResponseWriter(call)
  res.setHeader('Content-Type', 'application/json')
  if (options.isGzip) res.setHeader('Content-Encoding', 'gzip')
  // The whole completion is generated before its first byte is sent.
  if (breakdown === undefined || options.failAfterTokens > 0) call.noteSent(response.tokens)
  if (breakdown === undefined) {
    res.setHeader('Content-Length', bytes.length)
    await writer.write(bytes)
    writer.end()
  } else {
    // Without a Content-Length the response is chunked, so that the client can recognise garbage.
    call.noteFailure()
    if (options.failAfterTokens > 0) await writer.write(bytes.subarray(0, bytes.length / 2))
    await breakDown(call, breakdown)
  }
}

/** Writes a response's bytes in pieces that are sent one by one. Throws an AbortError if the client disconnects. */
class ResponseWriter {
  readonly #call: FakeCall

  constructor(call: FakeCall) {
    this.#call = call
  }

  async write(bytes: Buffer): Promise<void> {
    const step = this.#call.options.chunkBytes || bytes.length
    for (let from = 0; from < bytes.length; from += step) await this.#send(bytes.subarray(from, from + step))
  }

  end(): void {
    this.#call.signal.throwIfAborted()
    this.#call.res.end()
  }

  async #send(piece: Buffer): Promise<void> {
    const { res, signal } = this.#call
    signal.throwIfAborted()
    if (!res.write(piece)) await once(res, 'drain', { signal })
    // Pieces that are written in the same turn of the event loop would be sent as one.
    await nextTurn(undefined, { signal })
  }
}

/** Returns a server-sent event. JSON.stringify writes no line ends, so one data line is enough. */
function sseEventText({ name, data }: StreamEvent, lineEnd: LineEnd): string {
  const end = LINE_ENDS[lineEnd]
  const lines = [`data: ${typeof data === 'string' ? data : JSON.stringify(data)}`]
  if (name !== undefined) lines.unshift(`event: ${name}`)
  return lines.map((line) => `${line}${end}`).join('') + end
}

/** Returns a member of a list, with what separates it from the member before it. */
function memberText({ data }: StreamEvent, isFirst: boolean): string {
  return `${isFirst ? '[' : ',\r\n'}${JSON.stringify(data)}`
}

/** Compresses piece by piece, so that each piece can be decompressed before the next one arrives. */
export class PiecewiseGzip {
  readonly #gzip = createGzip()
  #chunks: Buffer[] = []

  constructor() {
    this.#gzip.on('data', (chunk: Buffer) => this.#chunks.push(chunk))
  }

  async write(bytes: Buffer): Promise<Buffer> {
    this.#gzip.write(bytes)
    await new Promise<void>((resolve) => this.#gzip.flush(resolve))
    return this.#take()
  }

  async end(): Promise<Buffer> {
    await new Promise<void>((resolve) => {
      this.#gzip.once('end', resolve)
      this.#gzip.end()
    })
    return this.#take()
  }

  /** Must be called for a stream that does not reach its end. */
  destroy(): void {
    this.#gzip.destroy()
  }

  #take(): Buffer {
    const bytes = Buffer.concat(this.#chunks)
    this.#chunks = []
    return bytes
  }
}

/** Message of the failures that have one. */
export const FAILURE_MESSAGE = 'the fake LLM is configured to fail'

/** Failures that break the connection without a message. */
type Breakdown = 'reset' | 'stall' | 'garbage'

function breakdownOf({ fail }: FakeLlmOptions): Breakdown | undefined {
  return fail === 'reset' || fail === 'stall' || fail === 'garbage' ? fail : undefined
}

async function breakDown(call: FakeCall, breakdown: Breakdown): Promise<void> {
  const { res, signal } = call
  if (signal.aborted) return
  if (breakdown === 'stall') {
    await once(signal, 'abort')
    return
  }
  call.isBreaking = true
  if (breakdown === 'reset') {
    res.socket!.resetAndDestroy()
    return
  }
  if (!res.headersSent) res.flushHeaders()
  // A valid chunk begins with its size in hexadecimal digits, which this text does not.
  res.socket!.write('this is no chunk\r\n')
  res.socket!.destroySoon()
}
