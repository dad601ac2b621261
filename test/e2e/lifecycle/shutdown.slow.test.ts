import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { Edge } from '../../support/service/edge.ts'
import { ask, exchange } from '../../support/service/http.ts'
import { type Owner, scratchDirectory, serving } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const LONG_DRAIN = { EDGE_DRAIN_MS: '600000' }
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 100_000)] }))

describe.concurrent('while a process drains', () => {
  test('the admin port says so', async (t) => {
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

describe.concurrent('when a process stops', () => {
  test.for(['SIGTERM', 'SIGINT'] as const)('%s: the listener closes, and the exit status is 0', async (signal, t) => {
    const cli = await start(t, { EDGE_DRAIN_MS: '100', EDGE_WORKERS: '1' })
    expect(await cli.stop(signal)).toBe(0)
    expect(cli.log.slice(-2)).toMatchObject([
      { event: 'stopping', reason: signal, drain_ms: 100 },
      { event: 'stopped', level: 'info' },
    ])
    await expect(ask(cli.port, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('a question that is half here is answered when the rest comes, and only then it has stopped', async (t) => {
    const edge = await Edge.start({ bundle: BUNDLE })
    let isStopped = false
    const question = decisionBytes(original('/'))
    const caller = RawClient.connect(edge.port, t)
    // One whole question first: then it is certain that the server has the connection.
    caller.send(question)
    await until(() => caller.received.includes('\r\n\r\n'))
    caller.received = ''
    caller.send(question.subarray(0, 40))
    const seen = await ask(edge.port, 'GET', '/livez')
    expect(seen.status).toBe(200)

    const stopped = edge.stop().then(() => {
      isStopped = true
    })
    t.onTestFinished(() => stopped)
    await until(() => isClosedPort(edge.port))
    expect(isStopped).toBe(false)
    caller.send(question.subarray(40))
    await stopped
    await until(() => caller.isClosed)
    expect(readAnswers(caller.received)).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  })

  test('a question that never ends is cut, and the exit status is 0', async (t) => {
    const cli = await start(t)
    const caller = RawClient.connect(cli.port, t)
    caller.send('POST /v1/decision HTTP/1.1\r\nHost: edge\r\n')
    await ask(cli.port, 'GET', '/livez')
    expect(await cli.stop()).toBe(0)
    await until(() => caller.isClosed)
    expect(caller.received).not.toContain(' 200 ')
  })
})

async function start(t: Owner, env: Readonly<Record<string, string>> = {}): Promise<Cli> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await writeFile(path, JSON.stringify(BUNDLE))
  return serving({ EDGE_CONFIG_FILE: path, EDGE_WORKERS: '2', ...env }, [], t)
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
