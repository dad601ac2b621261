import type { IncomingMessage } from 'node:http'
import { runInSlices, TimeShare } from '../../time/slices.ts'
import { ApiError, ClientGone } from './api-error.ts'

/** Share of a worker's time that long responses may take. */
const SHARE = 0.1
const BURST_MS = 20
/** Clients of one route that may wait for a worker at a time. Each holds its request and what was found for it so far. */
const MAX_CLIENTS = 64

/** How often a client that has ended its side of the connection is probed. */
const PROBE_MS = 250
const PROBE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Whoever has asked, as long as it is there to be answered. */
type Client = Pick<IncomingMessage, 'socket' | 'httpVersion'>

/** What a route uses while it makes a long response for a client. */
export interface LongWork {
  /** Builds or searches a long text in steps, in its turn. Rejects with ClientGone as soon as the client has left. */
  make<Result>(steps: Generator<void, Result>): Promise<Result>
  /** Throws ClientGone if the client has left. To be called before work that is not done in steps. */
  refuseIfGone(): void
}

/**
 * Makes the long responses of a route one after the other, a slice at a time, so that a worker's decisions are never delayed for long. A limited number of
 * clients may wait, and nothing is made for a client that has left.
 */
export class LongResponses {
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  /** The first one is in progress. */
  readonly #waiting: WaitingText[] = []
  #clients = 0

  /** Handles a request. Throws if too many others are being handled. */
  async serve<Response>(client: Client, handle: (work: LongWork) => Promise<Response>): Promise<Response> {
    if (this.#clients >= MAX_CLIENTS)
      throw new ApiError('too_many_readers', 'too many long responses are waiting to be made: ask again in a moment')
    this.#clients++
    const onGone = (): void => this.#drop(client)
    client.socket.once('close', onGone)
    const probes = setInterval(() => probe(client), PROBE_MS).unref()
    try {
      return await handle({ make: (steps) => this.make(steps, client), refuseIfGone: () => refuseIfGone(client) })
    } finally {
      clearInterval(probes)
      client.socket.off('close', onGone)
      this.#clients--
    }
  }

  /** Makes a text in its turn. Without a client, because several share it, nobody can leave. */
  make<Result>(steps: Generator<void, Result>, client?: Client): Promise<Result> {
    return new Promise((resolve, reject) => {
      const given = client === undefined ? steps : whileThere(client, steps)
      if (client !== undefined) refuseIfGone(client)
      this.#waiting.push({ client, steps: given, resolve: resolve as (result: unknown) => void, reject })
      if (this.#waiting.length === 1) this.#begin()
    })
  }

  /** Gives up the places of a client that has left. A text in progress ends at its next step. */
  #drop(client: Client): void {
    for (const text of this.#waiting.filter((each, i) => i > 0 && each.client === client)) {
      this.#waiting.splice(this.#waiting.indexOf(text), 1)
      text.reject(new ClientGone())
    }
  }

  #begin(): void {
    const waitMs = this.#time.waitMs(performance.now())
    if (waitMs > 0) {
      setTimeout(() => this.#begin(), waitMs).unref()
      return
    }
    const { steps, resolve, reject } = this.#waiting[0]!
    const end = (): void => {
      this.#waiting.shift()
      if (this.#waiting.length > 0) this.#begin()
    }
    runInSlices({
      steps,
      onSlice: (workMs) => this.#time.spend(workMs, performance.now()),
      onDone: (text) => {
        end()
        resolve(text)
      },
      onError: (error) => {
        end()
        reject(error)
      },
    })
  }
}

interface WaitingText {
  readonly client: Client | undefined
  readonly steps: Generator<void, unknown>
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

/**
 * A client that has ended its side may still wait for its response, or be gone, which looks the same. One that is gone replies to the first probe with a
 * reset, so that the second closes the connection. HTTP/1.0 has no such responses.
 */
function probe({ socket, httpVersion }: Client): void {
  if (socket.readableEnded && !socket.destroyed && httpVersion !== '1.0') socket.write(PROBE)
}

function refuseIfGone({ socket }: Client): void {
  if (socket.destroyed) throw new ClientGone()
}

function* whileThere<Result>(client: Client, steps: Generator<void, Result>): Generator<void, Result> {
  for (;;) {
    refuseIfGone(client)
    const step = steps.next()
    if (step.done) return step.value
    yield
  }
}

const COMMA = Buffer.from(',')

/** Returns a JSON object whose last member is a long list. The texts of its items are joined as bytes, which takes hardly any time. */
export function jsonWithList(members: object, name: string, items: readonly Buffer[]): Buffer {
  const head = JSON.stringify({ ...members, [name]: [] })
  const parts: Buffer[] = [Buffer.from(head.slice(0, -2))]
  for (const [i, item] of items.entries()) {
    if (i > 0) parts.push(COMMA)
    parts.push(item)
  }
  parts.push(Buffer.from(head.slice(-2)))
  return Buffer.concat(parts)
}
