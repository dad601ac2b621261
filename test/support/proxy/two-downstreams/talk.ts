import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { AnswerReader } from './answer-reader.ts'
import { STALLED } from './backend-answers.ts'

/** What a client does on one connection. */
export interface Talk {
  readonly steps: readonly Step[]
  /** `end`: half-closes behind the last step. `reset`: breaks off in the middle of a stalled answer. */
  readonly ending: 'end' | 'reset'
}

/** Bytes in pieces, each sent in a turn of its own. */
export interface Step {
  readonly pieces: readonly string[]
  /** Of the requests, whose answers are waited for; undefined where nobody knows what will be answered. */
  readonly methods: readonly string[] | undefined
}

/** Bytes of which nobody knows what they are answered with, and a probe. */
export function oddTalk(pieces: readonly string[]): Talk {
  return { steps: [pieces, [PROBE]].map((some) => ({ pieces: some, methods: undefined })), ending: 'end' }
}

export interface TalkResult {
  readonly answers: readonly string[]
  /** What was not a whole answer. */
  readonly rest: string
  /** How the other side closed the connection. */
  readonly closing: 'ended' | 'reset' | 'never'
}

/** A side that stays silent for so long has nothing more to say. */
const PATIENCE_MS = 15_000
const STILL_MS = 40
const STILL_TURNS = 30
/** In the answer to the probe, and in the probe itself, which a tunnel may send back. */
const PROBED = 'probed'
/** The last request of a connection: its answer shows that the connection is still in step. No rule has a key for it. */
export const PROBE = `GET /${PROBED} HTTP/1.1\r\nHost: edge\r\nX-Answer: ${PROBED} 1\r\n\r\n`

export async function converse(port: number, { steps, ending }: Talk): Promise<TalkResult> {
  const reader = new AnswerReader()
  const client = new TalkClient(port, reader)
  await client.connected
  let expected = 0
  for (const { pieces, methods } of steps) {
    if (methods !== undefined) reader.expect(methods)
    for (const piece of pieces) {
      client.send(piece)
      await turn()
    }
    if (methods === undefined) continue
    expected += methods.length
    await client.until(() => reader.finals >= expected)
    if (client.isClosed) break
  }
  if (ending === 'reset') {
    await client.until(() => client.last.includes(STALLED) || reader.finals > expected)
    client.reset()
  } else {
    // What it gets may depend on whether its end comes before an answer: so it waits for all that is on its way.
    await client.untilProbed()
    client.end()
  }
  await client.until(() => client.isClosed)
  return client.result()
}

class TalkClient {
  readonly connected: Promise<void>
  /** The last bytes that came. */
  last = ''
  isClosed = false
  #closing: TalkResult['closing'] = 'never'
  readonly #socket
  readonly #reader: AnswerReader
  #wake = (): void => {}

  constructor(port: number, reader: AnswerReader) {
    this.#reader = reader
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
    this.connected = new Promise((resolve) => this.#socket.once('connect', resolve))
    this.#socket.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1')
      this.last = this.last.slice(-20) + text
      reader.push(text)
      this.#wake()
    })
    this.#socket.on('end', () => {
      this.#closing = 'ended'
      this.#socket.end()
    })
    this.#socket.on('error', () => {
      if (this.#closing === 'never') this.#closing = 'reset'
    })
    this.#socket.on('close', () => {
      this.isClosed = true
      this.#wake()
    })
  }

  send(piece: string): void {
    if (this.#socket.writable) this.#socket.write(piece, 'latin1')
  }

  end(): void {
    this.#reader.hasClientEnded = true
    if (this.#socket.writable) this.#socket.end()
  }

  reset(): void {
    this.#socket.resetAndDestroy()
  }

  /** Or until the connection is closed. One on which nothing happens for long is broken off. */
  async until(isTrue: () => boolean): Promise<void> {
    while (!isTrue() && !this.isClosed) if (!(await this.#hasNews(PATIENCE_MS))) this.#socket.destroy()
  }

  /** Or until the connection is closed, or nothing came for a while: then what was sent is a part of a request that has no end yet. */
  async untilProbed(): Promise<void> {
    while (!this.isClosed && !this.last.includes(PROBED)) {
      if (await this.#hasNews(STILL_MS)) continue
      const { bytesRead } = this.#socket
      for (let i = 0; i < STILL_TURNS; i++) await turn()
      if (this.#socket.bytesRead === bytesRead) return
    }
  }

  /** Waits for bytes, or for the end of the connection, for so long. */
  #hasNews(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })
  }

  result(): TalkResult {
    const rest = this.#reader.end()
    return { answers: this.#reader.answers, rest, closing: this.#closing }
  }
}
