import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../support/random/random.ts'
import type { Findings } from './findings.ts'

const WAITS_MS = [0, 50, 300]
const REPEATED_BOUND = '{"max_tokens":1,"m\\u0061x_tokens":2,"messages":[]}'
const CHAT = 'POST /v1/chat/completions HTTP/1.1\r\nHost: edge\r\n'
/** No policy covers it. */
const FREE = 'GET /free HTTP/1.1\r\nHost: edge\r\n'

interface Play {
  readonly bytes: string
  /** What the responses must begin with, as far as they come. */
  readonly statuses: readonly number[]
  /** Whether the connection waits for all of them before it is left. */
  readonly isPatient: boolean
}

const PLAYS: readonly ((plain: string, budget: string) => Play)[] = [
  (plain) => patient(`GET /plain HTTP/1.1\r\nHost: edge\r\nX-Caller: ${plain}\r\nx-caller: another\r\n\r\n`, 400),
  (_plain, budget) => patient(`${CHAT}X-Caller: ${budget}\r\nX-Caller: ${budget}\r\nContent-Length: 2\r\n\r\n{}`, 400),
  (_plain, budget) => patient(`${CHAT}X-Caller: ${budget}\r\nContent-Length: ${REPEATED_BOUND.length}\r\n\r\n${REPEATED_BOUND}`, 400),
  (_plain, budget) => hasty(`${CHAT}X-Caller: ${budget}\r\nContent-Length: 200000\r\n\r\n{"messages":[`),
  (_plain, budget) => hasty(`${CHAT}X-Caller: ${budget}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n"\r\n`),
  () => hasty(`${FREE}\r\n`.repeat(60)),
  () => patient(`${FREE}\r\nGARBAGE\r\n\r\n`, 200, 400),
  () =>
    patient(
      `${FREE}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`.repeat(5),
      200,
      200,
      200,
      200,
      200,
    ),
]

/** Requests to a proxy that are refused, broken off or covered by no policy: none of them takes anything from the callers that they name. */
export class HostileRequests {
  readonly #port: number
  readonly #plain: readonly string[]
  readonly #budgets: readonly string[]
  readonly #findings: Findings
  #isOver = false
  readonly #lanes: Promise<void>[]

  constructor(port: number, plain: readonly string[], budgets: readonly string[], findings: Findings, random: Random, lanes: number) {
    this.#port = port
    this.#plain = plain
    this.#budgets = budgets
    this.#findings = findings
    this.#lanes = Array.from({ length: lanes }, () => this.#run(new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(random: Random): Promise<void> {
    while (!this.#isOver) {
      await this.#play(random.oneOf(PLAYS)(random.oneOf(this.#plain), random.oneOf(this.#budgets)), random)
      await sleep(random.next() * 150)
    }
  }

  async #play({ bytes, statuses, isPatient }: Play, random: Random): Promise<void> {
    const socket = connect({ port: this.#port, host: '127.0.0.1' })
    let text = ''
    const came = (): number[] => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
    const closed = new Promise<void>((resolve) => {
      socket.on('error', () => {}) // its 'close' follows
      socket.on('close', () => resolve())
    })
    const answered = new Promise<void>((resolve) => {
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1')
        if (isPatient && came().length >= statuses.length) resolve()
      })
    })
    socket.write(bytes)
    await Promise.race(isPatient ? [closed, answered] : [closed, sleep(random.oneOf(WAITS_MS))])
    if (random.below(2) === 0) socket.resetAndDestroy()
    else socket.destroy()
    await closed
    // A worker that dies or a restart takes the rest along.
    const wrong = came().findIndex((status, i) => i < statuses.length && status !== statuses[i])
    this.#findings.checks++
    if (wrong >= 0) this.#findings.note(`${JSON.stringify(bytes.slice(0, 150))} came to ${came().join(', ')}, not ${statuses.join(', ')}`)
  }
}

function patient(bytes: string, ...statuses: number[]): Play {
  return { bytes, statuses, isPatient: true }
}

function hasty(bytes: string): Play {
  return { bytes, statuses: [], isPatient: false }
}
