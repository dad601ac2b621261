import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Cli } from '../../support/service/cli.ts'
import { finished, scratchDirectory, serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

test('systemd is told of the start, of reloads with their outcome, and of the end with the time that it may take', async () => {
  const { edge, messages, changeBundle } = await started({ EDGE_DRAIN_MS: '1' })
  await until(async () => (await messages()).length === 1)
  await changeBundle(JSON.stringify(bundle(2)))
  edge.process.kill('SIGHUP')
  await until(async () => (await messages()).length === 3)
  await changeBundle('{')
  edge.process.kill('SIGHUP')
  await until(async () => (await messages()).length === 5)
  expect(await edge.stop()).toBe(0)
  await until(async () => (await messages()).length === 6)
  expect(await messages()).toEqual([
    'READY=1 STATUS=Serving by bundle version 1',
    expect.stringMatching(/^RELOADING=1 MONOTONIC_USEC=\d+$/),
    'READY=1 STATUS=Serving by bundle version 2',
    expect.stringMatching(/^RELOADING=1 /),
    expect.stringMatching(/^READY=1 STATUS=Serving by bundle version 2\. The source of bundles: ./),
    'STOPPING=1 EXTEND_TIMEOUT_USEC=37001000 STATUS=Shutting down, which takes up to 8 s',
  ])
})

test('the watchdog is pinged with the status of that moment, which a reload is not needed for', async () => {
  const { edge, messages, changeBundle } = await started({ WATCHDOG_USEC: '300000' })
  const pings = async (version: number): Promise<number> =>
    (await messages()).filter((line) => line === `WATCHDOG=1 STATUS=Serving by bundle version ${version}`).length
  await until(async () => (await pings(1)) >= 2)
  await changeBundle(JSON.stringify(bundle(3)))
  await until(async () => (await pings(3)) >= 2)
  expect(await edge.stop()).toBe(0)
})

test('a watchdog that watches another process is not pinged', async () => {
  const { edge, messages } = await started({ WATCHDOG_USEC: '1000', WATCHDOG_PID: '1' })
  edge.process.kill('SIGHUP')
  await until(async () => (await messages()).length === 3)
  expect((await messages()).filter((line) => line.startsWith('WATCHDOG'))).toEqual([])
})

test('without a bundle it is started all the same, and the status says that it serves nothing', async () => {
  const { messages } = await started({ EDGE_CONFIG_FILE: '/nowhere/bundle.json' })
  await until(async () => (await messages()).length === 1)
  expect((await messages())[0]).toMatch(/^READY=1 STATUS=No bundle is loaded, every request gets 503\. The source of bundles: ./)
})

test('systemd is told why a start fails, for as long as it waits for the next one', async () => {
  const { env, messages } = await withNotify()
  expect((await finished(['serve'], { ...env, EDGE_PORT: 'eighty', EDGE_HOTS: '::1' })).status).toBe(1)
  const taken = await serving({ EDGE_CONFIG_FILE: 'examples/quickstart.json' })
  expect((await finished(['serve'], { ...env, EDGE_HOST: '127.0.0.1', EDGE_PORT: String(taken.port) })).status).toBe(1)
  expect(await messages()).toEqual([
    expect.stringMatching(/^STATUS=Cannot start: EDGE_PORT: expected a port from 0 to 65535, or off, got "eighty"; .*EDGE_HOTS/),
    `STATUS=Cannot start: EDGE_PORT: port ${taken.port} is in use by another process`,
  ])
  const silent = { ...env, PATH: '/nowhere', EDGE_PORT: 'eighty' }
  expect(await finished(['serve'], silent)).toMatchObject({ status: 1, stderr: expect.stringContaining('EDGE_PORT: expected a port') })
})

test('no secret reaches the process that sends a message, nor anything else of the environment', async () => {
  const { messages, environment } = await started({ EDGE_DEBUG_SESSION_SECRET: 'a-secret-for-tests-0123456789' })
  await until(async () => (await messages()).length === 1)
  // A shell sets the last three by itself.
  expect((await environment()).filter((name) => !['PWD', 'SHLVL', '_'].includes(name))).toEqual(['NOTIFY_SOCKET', 'PATH'])
})

test('where messages cannot be sent, that is logged once, and the service goes on', async () => {
  const { edge } = await started({ PATH: '/nowhere', WATCHDOG_USEC: '30000' })
  await untilLogged(edge, 'notify_failed', 1)
  edge.process.kill('SIGHUP')
  await untilLogged(edge, 'bundle_unchanged', 1)
  expect(await edge.stop()).toBe(0)
  expect(edge.logged('notify_failed')).toEqual([
    expect.objectContaining({ level: 'warn', err: expect.objectContaining({ code: 'ENOENT' }) }),
  ])
})

interface Notified {
  /** What systemd sets. */
  readonly env: { readonly NOTIFY_SOCKET: string; readonly PATH: string }
  /** What `systemd-notify` was called with so far, a line for each call. */
  readonly messages: () => Promise<string[]>
  /** The names of its environment variables at the last call. */
  readonly environment: () => Promise<string[]>
}

/** A `systemd-notify` that writes down its calls. test/packaging has the real one. */
async function withNotify(): Promise<Notified> {
  const directory = await scratchDirectory()
  const [calls, variables, program] = ['calls', 'variables', 'systemd-notify'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ]
  await writeFile(calls, '')
  await writeFile(program, `#!/bin/sh\nenv | sed 's/=.*//' | sort >'${variables}'\necho "$*" >>'${calls}'\n`)
  await chmod(program, 0o755)
  const linesOf = async (file: string): Promise<string[]> => (await readFile(file, 'utf8')).split('\n').slice(0, -1)
  const env = { NOTIFY_SOCKET: '/run/systemd/notify', PATH: `${directory}:${process.env['PATH']}` }
  return { env, messages: () => linesOf(calls), environment: () => linesOf(variables) }
}

interface Started extends Notified {
  readonly edge: Cli
  readonly changeBundle: (text: string) => Promise<void>
}

/** Starts `edge serve` as systemd does. */
async function started(env: Readonly<Record<string, string>>): Promise<Started> {
  const notified = await withNotify()
  const bundleFile = join(await scratchDirectory(), 'bundle.json')
  const changeBundle = (text: string): Promise<void> => writeFile(bundleFile, text)
  await changeBundle(JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-api-key'], 100)] }))))
  const edge = await serving({ EDGE_CONFIG_FILE: bundleFile, ...notified.env, ...env })
  return { ...notified, edge, changeBundle }
}
