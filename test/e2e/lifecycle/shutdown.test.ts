import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Cli } from '../../support/service/cli.ts'
import { Edge } from '../../support/service/edge.ts'
import { ask, exchange } from '../../support/service/http.ts'
import { Load } from '../../support/service/load.ts'
import { type Owner, scratchDirectory, serving } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const DRAIN_MS = 600_000
const LONG_DRAIN = { EDGE_DRAIN_MS: String(DRAIN_MS) }

describe('while it drains, the service', () => {
  const suite = thisSuite()
  let [cli, open, load]: [cli: Cli, open: Talker, load: Load] = [] as never
  beforeAll(async () => {
    cli = await start(suite, LONG_DRAIN)
    open = talker(suite, cli.port)
    open.socket.write(decisionBytes(original('/')))
    await until(() => open.received.includes('\r\n\r\n'))
    load = new Load(cli.port, original('/'), 4)
    suite.onTestFinished(() => load.stop())
    await until(() => load.total > 50)
    cli.process.kill('SIGTERM')
    await until(() => hasLogged(cli, 'stopping'))
  })

  test('leaves no question under load without its answer', async () => {
    const target = load.total + 100
    await until(() => load.total > target)
    await load.stop()
    expect(load.errors).toEqual([])
    expect([...load.statuses.keys()]).toEqual([200])
  })

  test('is not ready, yet decides on, and every answer is the last of its connection', async () => {
    expect(readAnswers(open.received)[0]!.headers['connection']).not.toBe('close')
    expect(await ask(cli.port, 'GET', '/readyz')).toMatchObject({ status: 503, body: '{"status":"not_ready","reason":"shutting_down"}' })
    expect(await ask(cli.port, 'GET', '/livez')).toMatchObject({ status: 200, body: 'ok' })
    const [answer] = readAnswers(await exchange(cli.port, decisionBytes(original('/'))))
    expect(answer).toMatchObject({ status: 200, headers: { connection: 'close', 'ratelimit-limit': '100000' } })
    open.socket.write(decisionBytes(original('/')))
    await until(() => open.isClosed)
    expect(readAnswers(open.received).map(({ status, headers }) => [status, headers['connection']])[1]).toEqual([200, 'close'])
    expect(cli.process.exitCode).toBeNull()
    expect(cli.log.at(-1)).toMatchObject({ event: 'stopping', reason: 'SIGTERM', drain_ms: 600_000 })
  })
})

test('while it drains, the admin port says the same', async (t) => {
  const drain = new HeldDrain()
  const edge = await Edge.start({ bundle: BUNDLE, env: { ...LONG_DRAIN, EDGE_ADMIN_PORT: '0' }, pause: drain.pause })
  t.onTestFinished(() => edge.stop())
  expect((await ask(edge.adminPort, 'GET', '/readyz')).status).toBe(200)
  const stopped = edge.stop()
  await drain.begun
  expect(await ask(edge.adminPort, 'GET', '/readyz')).toMatchObject({
    status: 503,
    body: '{"status":"not_ready","reason":"shutting_down"}',
  })
  expect(readAnswers(await exchange(edge.port, decisionBytes(original('/'))))[0]!.status).toBe(200)
  drain.letGo()
  await stopped
})

describe.concurrent('when it stops', () => {
  test('idle connections hold nothing up', async (t) => {
    const edge = await startHere(t)
    const idle = talker(t, edge.port)
    idle.socket.write(decisionBytes(original('/')))
    await until(() => idle.received.includes('\r\n\r\n'))
    await edge.stop()
    await until(() => idle.isClosed)
  })

  test('an answer that is being held back is still given', async (t) => {
    const edge = await startHere(t, { EDGE_DEBUG_SESSION_SECRET: 'right' })
    const guesses = Array.from({ length: 7 }, () => ask(edge.port, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', 'wrong']]))
    await until(() => edge.log.filter(({ event }) => event === 'debug_session_refused').length === 7)
    const stopped = edge.stop()
    expect((await Promise.all(guesses)).map(({ status }) => status)).toEqual(Array(7).fill(403))
    await stopped
  })
})

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 100_000)] }))

/** A drain that lasts until the test ends it. */
class HeldDrain {
  readonly begun: Promise<void>
  readonly #over: Promise<void>
  letGo!: () => void
  #begin!: () => void

  constructor() {
    this.begun = new Promise((resolve) => {
      this.#begin = resolve
    })
    this.#over = new Promise((resolve) => {
      this.letGo = resolve
    })
  }

  /** Nothing else is waited for in vain. */
  readonly pause = async (ms: number): Promise<void> => {
    if (ms !== DRAIN_MS) return new Promise(() => {})
    this.#begin()
    await this.#over
  }
}

interface StoppingEdge {
  readonly port: number
  readonly log: Edge['log']
  readonly isStopped: boolean
  /** Once, however often it is asked for. */
  stop(): Promise<void>
}

/** The service in this process. That the end of one follows from `stop` is what the tests with signals show. */
async function startHere(t: Owner, env: Readonly<Record<string, string>> = {}): Promise<StoppingEdge> {
  const edge = await Edge.start({ bundle: BUNDLE, env })
  let [isStopped, stopped]: [isStopped: boolean, stopped: Promise<void> | undefined] = [false, undefined]
  const stop = (): Promise<void> => {
    stopped ??= edge.stop().then(() => {
      isStopped = true
    })
    return stopped
  }
  t.onTestFinished(stop)
  return {
    port: edge.port,
    log: edge.log,
    get isStopped() {
      return isStopped
    },
    stop,
  }
}

async function start(t: Owner, env: Readonly<Record<string, string>> = {}): Promise<Cli> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await writeFile(path, JSON.stringify(BUNDLE))
  return serving({ EDGE_CONFIG_FILE: path, EDGE_WORKERS: '1', ...env }, [], t)
}

interface Talker {
  readonly socket: Socket
  received: string
  isClosed: boolean
}

function talker(t: Owner, port: number): Talker {
  const socket = connect(port, '127.0.0.1')
  const talk: Talker = { socket, received: '', isClosed: false }
  socket.on('data', (chunk) => {
    talk.received += chunk.toString('latin1')
  })
  socket.on('error', () => {}) // being cut may look like a reset
  socket.on('close', () => {
    talk.isClosed = true
  })
  t.onTestFinished(() => void socket.destroy())
  return talk
}

function hasLogged(cli: Cli, name: string): boolean {
  return cli.log.some(({ event }) => event === name)
}
