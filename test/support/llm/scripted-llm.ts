import { once } from 'node:events'
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { thisTest } from '../service/running.ts'
import { until } from '../until.ts'

type Play = (call: ScriptedCall) => unknown

/** A backend that does what the test says: call by call, or each call by the same script. Lives as long as the test. */
export async function scriptedLlm(play?: Play, owner = thisTest): Promise<ScriptedLlm> {
  const backend = new ScriptedLlm(play)
  await backend.listen()
  owner.onTestFinished(() => backend.close())
  return backend
}

/** A backend that answers every call with this stream, in writes of so many bytes; 0: in one. */
export function streamingLlm(text: string | Buffer, chunkBytes = 0, owner = thisTest): Promise<ScriptedLlm> {
  return scriptedLlm(async (call) => {
    call.begin()
    await call.writeInPieces(text, chunkBytes)
    call.end()
  }, owner)
}

/** A backend that answers every call with this body. */
export function answeringLlm(status: number, body: object | string, fields?: OutgoingHttpHeaders): Promise<ScriptedLlm> {
  return scriptedLlm((call) => call.answer(status, body, fields))
}

/** A backend that compresses, whatever it was asked for. */
export function compressingLlm(coding: string, bytes: Buffer, type = 'text/event-stream', chunkBytes = 13): Promise<ScriptedLlm> {
  return scriptedLlm(async (call) => {
    call.begin({ 'Content-Encoding': coding, 'Content-Type': type })
    await call.writeInPieces(bytes, chunkBytes)
    call.end()
  })
}

export class ScriptedLlm {
  /** Every call whose body is here, oldest first. */
  readonly calls: ScriptedCall[] = []
  readonly #server: Server
  #next = 0

  constructor(play: Play = () => {}) {
    this.#server = createServer({ keepAliveTimeout: 75_000 }, async (req, res) => {
      const call = new ScriptedCall(req, res, (await buffer(req)).toString())
      this.calls.push(call)
      await play(call)
    })
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** The next call that the test has not asked for yet. */
  async next(): Promise<ScriptedCall> {
    const index = this.#next++
    await until(() => this.calls.length > index)
    return this.calls[index]!
  }

  listen(): Promise<void> {
    return new Promise((resolve) => {
      // A thousand connections at once are more than wait by default. The kernel drops the rest, and tries for longer than a connection may take.
      this.#server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, resolve)
    })
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }
}

/** One request to the backend, and the answer that the test makes up for it. */
export class ScriptedCall {
  readonly req: IncomingMessage
  readonly body: string
  /** The other side went away before it had the whole answer. */
  isAborted = false
  readonly #res: ServerResponse

  constructor(req: IncomingMessage, res: ServerResponse, body: string) {
    this.req = req
    this.body = body
    this.#res = res
    res.on('error', () => {}) // 'close' follows
    res.on('close', () => {
      this.isAborted = !res.writableFinished
    })
  }

  /** Sends the head of a stream. */
  begin(fields: OutgoingHttpHeaders = {}, status = 200): void {
    this.#res.writeHead(status, { 'Content-Type': 'text/event-stream; charset=utf-8', ...fields })
    this.#res.flushHeaders()
  }

  /** What is written in one call leaves by itself. */
  async write(bytes: string | Buffer): Promise<void> {
    this.#res.write(bytes)
    await nextTurn()
  }

  /** Goes on until nobody takes it any more. */
  async writeUntilAborted(bytes: string): Promise<void> {
    await until(() => {
      if (!this.isAborted) this.#res.write(bytes)
      return this.isAborted
    })
  }

  /** Returns false when it is time to wait. */
  writeNow(bytes: string | Buffer): boolean {
    return this.#res.write(bytes)
  }

  async drained(): Promise<void> {
    await once(this.#res, 'drain')
  }

  async writeInPieces(bytes: string | Buffer, pieceBytes: number): Promise<void> {
    const buffered = Buffer.from(bytes as string)
    const step = pieceBytes || buffered.length || 1
    for (let from = 0; from < buffered.length && !this.isAborted; from += step) await this.write(buffered.subarray(from, from + step))
  }

  end(bytes: string | Buffer = ''): void {
    this.#res.end(bytes)
  }

  /** Breaks the connection. */
  reset(): void {
    this.#res.socket!.resetAndDestroy()
  }

  answer(status: number, body: object | string | Buffer, fields: OutgoingHttpHeaders = {}): void {
    const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    this.#res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(bytes), ...fields })
    this.#res.end(bytes)
  }
}
