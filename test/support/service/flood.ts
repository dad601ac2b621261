import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { anyKeyShare, clientHello, recordsOf } from '../tls/record-client.ts'
import { until } from '../until.ts'
import { type Owner, thisTest } from './running.ts'

const HELLO = recordsOf(clientHello([anyKeyShare()]))
const BODY = Buffer.alloc(900_000, 'x')
const POST = 'POST /admin/v1/session HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n'

/** What the connections of a flood send before they fall silent. */
const SENT = {
  nothing: Buffer.alloc(0),
  'one byte': HELLO.subarray(0, 1),
  'half a ClientHello': HELLO.subarray(0, 20),
  'a ClientHello': HELLO,
  'half a head': Buffer.from('GET /livez HTTP/1.1\r\nHost: a\r\n'),
  'half a preface': Buffer.from('PRI * HTTP/2.0\r\n'),
  'a body for an open route': Buffer.concat([Buffer.from(POST), BODY]),
} as const

/** A moment after which a connection that was closed is opened anew. */
const REOPEN_MS = 200

/** So many connections, which are opened anew whenever they are closed, from this many addresses. */
export class Flood {
  readonly #port: number
  readonly #bytes: Buffer
  readonly #sockets = new Set<Socket>()
  #isOver = false
  #opened = 0

  private constructor(port: number, bytes: Buffer) {
    this.#port = port
    this.#bytes = bytes
  }

  /** Resolves when all of them have been opened once. */
  static async begin(port: number, { what, connections, addresses }: FloodOptions, owner: Owner = thisTest): Promise<Flood> {
    const flood = new Flood(port, SENT[what])
    owner.onTestFinished(() => flood.end())
    for (let i = 0; i < connections; i++) {
      flood.#open(`127.0.7.${(i % addresses) + 1}`)
      // No more at once than a listener's queue holds.
      if (i % 100 === 99) await until(() => flood.#opened >= i - 50)
    }
    await until(() => flood.#opened >= connections)
    return flood
  }

  end(): void {
    this.#isOver = true
    for (const socket of this.#sockets) socket.destroy()
  }

  #open(localAddress: string): void {
    if (this.#isOver) return
    const socket = connect({ port: this.#port, host: '127.0.0.1', localAddress })
    this.#sockets.add(socket)
    socket
      .on('connect', () => {
        this.#opened++
        socket.write(this.#bytes)
      })
      .on('error', () => {})
      .on('close', () => {
        this.#sockets.delete(socket)
        void sleep(REOPEN_MS).then(() => this.#open(localAddress))
      })
      .resume()
  }
}

export interface FloodOptions {
  readonly what: keyof typeof SENT
  readonly connections: number
  readonly addresses: number
}

export interface Newcomer {
  readonly port: number
  readonly request: string | Buffer
  readonly isTls?: boolean
  readonly protocol?: 'http/1.1' | 'h2'
  readonly pair?: { readonly cert: Buffer; readonly key: Buffer }
}

/** Asks once on a new connection from an address that the flood has not. Returns what came, up to the end of a head or of a first frame. */
export async function askedAnew({ port, request, isTls = false, protocol = 'http/1.1', pair }: Newcomer): Promise<string> {
  const at = { port, host: '127.0.0.1', localAddress: '127.0.9.9' }
  const socket = isTls ? connectTls({ ...at, rejectUnauthorized: false, ALPNProtocols: [protocol], ...pair }) : connect(at)
  let received = ''
  let isOver = false
  socket
    .on('error', () => {})
    .on('close', () => {
      isOver = true
    })
    .on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1')
    })
    .write(request)
  try {
    await until(() => isOver || received.includes('\r\n\r\n') || (protocol === 'h2' && received.length > 9))
  } finally {
    socket.destroy()
  }
  return received
}
