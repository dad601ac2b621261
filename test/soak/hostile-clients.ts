import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../support/random/random.ts'
import { decisionBytes } from '../support/service/wire.ts'

const BAD_HEADS = [
  'nonsense\r\n\r\n',
  'POST /v1/decision HTTP/1.1\r\n\r\n',
  'POST /v1/decision HTTP/1.1\r\nHost: edge\r\nbad field\r\n\r\n',
  'POST /v1/decision HTTP/1.1\r\nHost: edge\r\nContent-Length: x\r\n\r\n',
  'POST /v1/decision HTTP/1.1\r\nHost: edge\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
  'GET /nowhere HTTP/1.1\r\nHost: edge\r\n\r\n',
  `${'GET /nowhere HTTP/1.1\r\nHost: edge\r\n\r\n'.repeat(40)}nonsense\r\n\r\n`,
  `POST /v1/decision HTTP/1.1\r\nHost: edge\r\nX-Pad: ${'p'.repeat(70_000)}\r\n\r\n`,
  '\0\0\0\0',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  decisionBytes([]).toString('latin1'),
  decisionBytes([['X-Original-Method', 'GET']]).toString('latin1'),
]
const SLOW_PIECE = 'POST /v1/decision HTTP/1.1\r\nHost: ed'
const WAITS_MS = [0, 50, 300, 1800]

/** Clients of which nothing may be left behind: bad heads, heads that stop in the middle, connections without a word. */
export class HostileClients {
  /** Connections so far. */
  count = 0
  readonly #heads: readonly string[]
  #isOver = false
  readonly #lanes: Promise<void>[]

  /** `others` are heads that must be refused like the bad ones. */
  constructor(ports: readonly number[], random: Random, lanes: number, others: readonly string[] = []) {
    this.#heads = [...BAD_HEADS, ...others, SLOW_PIECE, SLOW_PIECE, '']
    this.#lanes = Array.from({ length: lanes }, () => this.#run(ports, new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(ports: readonly number[], random: Random): Promise<void> {
    while (!this.#isOver) {
      await this.#connect(random.oneOf(ports), random)
      await sleep(random.next() * 100)
    }
  }

  async #connect(port: number, random: Random): Promise<void> {
    const socket = connect({ port, host: '127.0.0.1' })
    const closed = new Promise<void>((resolve) => {
      socket.on('error', () => {}) // its 'close' follows
      socket.on('close', () => resolve())
    })
    this.count++
    const said = random.oneOf(this.#heads)
    if (said !== '') socket.write(Buffer.from(said, 'latin1'))
    if (random.below(3) > 0) socket.resume()
    await Promise.race([closed, sleep(random.oneOf(WAITS_MS))])
    if (random.below(2) === 0) socket.resetAndDestroy()
    else socket.destroy()
    await closed
  }
}
