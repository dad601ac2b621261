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

const LONG_DRAIN = { EDGE_DRAIN_MS: '600000' }

describe('while it drains, the service', () => {
  const suite = thisSuite()
  let [cli, open, load]: [cli: Cli, open: Talker, load: Load] = [] as never
  beforeAll(async () => {
    cli = await start(suite, LONG_DRAIN)
    open = talker(suite, cli.port)
    open.socket.write(decisionBytes(original('/')))
    await until(() => open.received.includes('\r\n\r\n'))
    load = new Load(cli.port, original('/'), 8)
    suite.onTestFinished(() => load.stop())
    await until(() => load.total > 100)
    cli.process.kill('SIGTERM')
    await until(() => hasLogged(cli, 'stopping'))
  })

  test('leaves no question under load without its answer', async () => {
    const target = load.total + 300
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

describe.concurrent('while it drains', () => {
  test('the admin port says the same', async (t) => {
    const cli = await start(t, { ...LONG_DRAIN, EDGE_ADMIN_PORT: '0', EDGE_WORKERS: '1' })
    const admin = Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
    expect((await ask(admin, 'GET', '/readyz')).status).toBe(200)
    cli.process.kill('SIGTERM')
    await until(() => hasLogged(cli, 'stopping'))
    expect(await ask(admin, 'GET', '/readyz')).toMatchObject({ status: 503, body: '{"status":"not_ready","reason":"shutting_down"}' })
    expect(readAnswers(await exchange(cli.port, decisionBytes(original('/'))))[0]!.status).toBe(200)
  })

  test.for([
    ['SIGTERM', 'SIGTERM'],
    ['SIGTERM', 'SIGINT'],
    ['SIGINT', 'SIGTERM'],
    ['SIGINT', 'SIGINT'],
  ] as const)('%s and then %s: it ends at once', async ([first, second], t) => {
    const cli = await start(t, { ...LONG_DRAIN, EDGE_WORKERS: '1' })
    cli.process.kill(first)
    await until(() => hasLogged(cli, 'stopping'))
    // Again and again: right after the first signal a SIGINT is taken for its echo.
    await until(() => cli.process.exitCode !== null || !cli.process.kill(second))
    expect(hasLogged(cli, 'stopped')).toBe(false)
  })
})

describe.concurrent('when it stops', () => {
  test.for(['SIGTERM', 'SIGINT'] as const)('%s: the listener closes, and the exit status is 0', async (signal, t) => {
    const cli = await start(t, { EDGE_DRAIN_MS: '100', EDGE_WORKERS: '1' })
    expect(await cli.stop(signal)).toBe(0)
    expect(cli.log.slice(-2)).toMatchObject([
      { event: 'stopping', reason: signal, drain_ms: 100 },
      { event: 'stopped', level: 'info' },
    ])
    await expect(ask(cli.port, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('idle connections hold nothing up', async (t) => {
    const edge = await startHere(t)
    const idle = talker(t, edge.port)
    idle.socket.write(decisionBytes(original('/')))
    await until(() => idle.received.includes('\r\n\r\n'))
    await edge.stop()
    await until(() => idle.isClosed)
  })

  test('a question that is half here is answered when the rest comes, and only then it has stopped', async (t) => {
    const edge = await startHere(t)
    const question = decisionBytes(original('/'))
    const caller = talker(t, edge.port)
    // One whole question first: then it is certain that the server has the connection.
    caller.socket.write(question)
    await until(() => caller.received.includes('\r\n\r\n'))
    caller.received = ''
    caller.socket.write(question.subarray(0, 40))
    const seen = await ask(edge.port, 'GET', '/livez')
    expect(seen.status).toBe(200)

    const stopped = edge.stop()
    await until(() => isClosedPort(edge.port))
    expect(edge.isStopped).toBe(false)
    caller.socket.write(question.subarray(40))
    await stopped
    await until(() => caller.isClosed)
    expect(readAnswers(caller.received)).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  })

  test('an answer that is being held back is still given', async (t) => {
    const edge = await startHere(t, { EDGE_DEBUG_SESSION_SECRET: 'right' })
    const guesses = Array.from({ length: 7 }, () => ask(edge.port, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', 'wrong']]))
    await until(() => edge.log.filter(({ event }) => event === 'debug_session_refused').length === 7)
    const stopped = edge.stop()
    expect((await Promise.all(guesses)).map(({ status }) => status)).toEqual(Array(7).fill(403))
    await stopped
  })

  test('a question that never ends is cut, and the exit status is 0', async (t) => {
    const cli = await start(t)
    const caller = talker(t, cli.port)
    caller.socket.write('POST /v1/decision HTTP/1.1\r\nHost: edge\r\n')
    await ask(cli.port, 'GET', '/livez')
    expect(await cli.stop()).toBe(0)
    await until(() => caller.isClosed)
    expect(caller.received).not.toContain(' 200 ')
  })
})

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 100_000)] }))

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
  return serving({ EDGE_CONFIG_FILE: path, EDGE_WORKERS: '2', ...env }, [], t)
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

function isClosedPort(port: number): Promise<boolean> {
  return ask(port, 'GET', '/livez').then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
  )
}

function hasLogged(cli: Cli, name: string): boolean {
  return cli.log.some(({ event }) => event === name)
}
