import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { describeWith } from '../../support/describe-with.ts'
import { Cli } from '../../support/service/cli.ts'
import { ask, exchange, type Place } from '../../support/service/http.ts'
import { type Environment, finished, scratchDirectory, serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const BURST = 3
const QUESTION = 'POST /v1/decision HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\nX-Api-Key: alice\r\n'
const run = promisify(execFile)

describe.concurrent('a unix socket', () => {
  test('takes the place of the port: decisions, health and metrics', async (t) => {
    const { cli, path } = await servingOn(t, { EDGE_PORT: 'off' })
    expect(cli.stdout).toContain(`  listens unix:${path}\n`)
    expect(cli.stdout).not.toContain('http://localhost:')
    expect(cli.logged('started')).toMatchObject([{ socket: path }])
    expect(cli.logged('started')[0]).not.toHaveProperty('port')
    expect(await statuses(path, BURST + 1)).toEqual([200, 200, 200, 429])
    expect((await ask(path, 'GET', '/readyz')).status).toBe(200)
    expect((await ask(path, 'GET', '/metrics')).body).toContain('edge_connections_refused_total{port="socket"} 0')
    expect(await cli.stop()).toBe(0)
  })

  test('is served beside the port, on the same counters', async (t) => {
    const { cli, path } = await servingOn(t)
    expect(cli.logged('started')).toMatchObject([{ socket: path, port: cli.port }])
    const both = [await decide(path), await decide(cli.port), await decide(path), await decide(cli.port), await decide(path)]
    expect(both).toEqual([200, 200, 200, 429, 429])
  })

  test('leaves operators their port', async (t) => {
    const { cli, path } = await servingOn(t, { EDGE_PORT: 'off', EDGE_ADMIN_PORT: '0' })
    const admin = Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
    expect((await ask(admin, 'GET', '/readyz')).status).toBe(200)
    expect((await ask(path, 'GET', '/readyz')).status).toBe(404)
  })

  test('answers pipelined questions in turn', async (t) => {
    const { path } = await servingOn(t, { EDGE_PORT: 'off' })
    const received = await exchange(path, `${`${QUESTION}\r\n`.repeat(4)}${QUESTION}Connection: close\r\n\r\n`)
    expect(received.match(/^HTTP\/1\.1 \d+/gm)).toEqual([200, 200, 200, 429, 429].map((status) => `HTTP/1.1 ${status}`))
  })

  test('has the permissions that are set, 0660 by default', async (t) => {
    const both = await Promise.all([servingOn(t), servingOn(t, { EDGE_SOCKET_MODE: '0604' })])
    expect(both.map(({ path }) => statSync(path).mode & 0o7777)).toEqual([0o660, 0o604])
  })

  test('is removed at shutdown, and nothing else is left', async (t) => {
    const { cli, path, directory } = await servingOn(t)
    expect(readdirSync(directory).toSorted()).toEqual(['bundle.json', 'edge.sock'])
    expect(await decide(path)).toBe(200)
    expect(await cli.stop()).toBe(0)
    expect(readdirSync(directory)).toEqual(['bundle.json'])
  })

  test('is replaced after a crash, which left it behind', async (t) => {
    const { cli, path, env } = await servingOn(t)
    await cli.stop('SIGKILL')
    expect(statSync(path).isSocket()).toBe(true)
    await serving(env, [], t)
    expect(await decide(path)).toBe(200)
  })

  test('carries gRPC, beside the other or alone', async (t) => {
    const grpcPath = join(await scratchDirectory(t), 'grpc.sock')
    const { cli } = await servingOn(t, { EDGE_GRPC_SOCKET: grpcPath })
    expect(cli.stdout).toContain(`  gRPC    unix:${grpcPath}\n`)
    expect(cli.logged('started')).toMatchObject([{ grpc_socket: grpcPath }])
    expect(await isServing(grpcPath)).toBe(true)
    await cli.stop()
    const env = { EDGE_PORT: 'off', EDGE_SOCKET: '', EDGE_GRPC_SOCKET: grpcPath, EDGE_ADMIN_PORT: '0' }
    const alone = startedCli(env, t)
    await until(() => alone.stdout.includes(`unix:${grpcPath}`))
    expect(await isServing(grpcPath)).toBe(false) // it has no bundle
    expect(alone.stdout).not.toContain('try')
  })

  test('is removed by a start that fails for another reason', async (t) => {
    const directory = await scratchDirectory(t)
    const missing = join(directory, 'missing', 'grpc.sock')
    const env = { EDGE_PORT: 'off', EDGE_SOCKET: join(directory, 'edge.sock'), EDGE_GRPC_SOCKET: missing }
    expect(await refusal(env, t)).toBe(`EDGE_GRPC_SOCKET: the directory ${join(directory, 'missing')} does not exist`)
    expect(readdirSync(directory)).toEqual([])
  })
})

describe.concurrent('a path that cannot be used is named', () => {
  test('one that another instance listens on, which goes on', async (t) => {
    const { path, env } = await servingOn(t)
    expect(await refusal(env, t)).toBe(`EDGE_SOCKET: ${path} is in use by another process`)
    expect(await refusal({ EDGE_PORT: 'off', EDGE_GRPC_SOCKET: path }, t)).toBe(`EDGE_GRPC_SOCKET: ${path} is in use by another process`)
    expect(await decide(path)).toBe(200)
  })

  test('one that two take at the same moment: one of them gets it', async (t) => {
    const env = { EDGE_PORT: 'off', EDGE_SOCKET: join(await scratchDirectory(t), 'edge.sock') }
    const both = await Promise.all([serving(env, [], t), serving(env, [], t)])
    const isUp = (cli: Cli): boolean => cli.stdout.includes('listens')
    expect(both.filter(isUp)).toHaveLength(1)
    const loser = both.find((cli) => !isUp(cli))!
    expect(await loser.exited).toBe(1)
    expect(loser.stderr).toContain(`EDGE_SOCKET: ${env.EDGE_SOCKET} is in use by another process\n`)
    expect((await ask(env.EDGE_SOCKET, 'GET', '/livez')).status).toBe(200)
  })

  test('one that is not a socket, which is left as it is', async (t) => {
    const directory = await scratchDirectory(t)
    const file = join(directory, 'precious')
    writeFileSync(file, 'precious')
    symlinkSync(file, join(directory, 'link'))
    for (const path of [file, join(directory, 'link'), directory]) {
      expect(await refusal({ EDGE_SOCKET: path }, t)).toBe(`EDGE_SOCKET: ${path} exists and is not a socket`)
    }
    expect(readFileSync(file, 'utf8')).toBe('precious')
    expect(readdirSync(directory).toSorted()).toEqual(['link', 'precious'])
  })

  test('one in a directory that is a file, or where nothing can be created', async (t) => {
    const file = join(await scratchDirectory(t), 'file')
    writeFileSync(file, '')
    expect(await refusal({ EDGE_SOCKET: `${file}/edge.sock` }, t)).toBe(`EDGE_SOCKET: ${file} is not a directory`)
    expect(await refusal({ EDGE_SOCKET: '/proc/edge.sock' }, t)).toBe('EDGE_SOCKET: this user is not allowed to create a socket in /proc')
  })
})

const hasCurl = await run('curl', ['--version']).then(
  () => true,
  () => false,
)
describeWith(hasCurl ? undefined : 'curl is not installed', 'the command in the greeting', () => {
  test('works as it is, on a path that a shell would split', async (t) => {
    const { cli } = await servingOn(t, { EDGE_PORT: 'off' }, "it's here.sock")
    const command = /^ {2}try {5}(.*)$/m.exec(cli.stdout)![1]!
    const { stdout } = await run('sh', ['-c', command])
    expect(stdout).toContain('HTTP/1.1 200 OK')
  })
})

interface ServingOn {
  readonly cli: Cli
  readonly directory: string
  readonly path: string
  readonly env: Environment
}

async function servingOn(t: TestContext, more: Environment = {}, name = 'edge.sock'): Promise<ServingOn> {
  const directory = await scratchDirectory(t)
  const path = join(directory, name)
  const bundlePath = join(directory, 'bundle.json')
  const rules = [bucketRule('r', ['header:x-api-key'], BURST, 0.001)]
  await replaceFile(bundlePath, JSON.stringify(bundle(1, policy('p', { rules }))))
  const env = { EDGE_SOCKET: path, EDGE_CONFIG_FILE: bundlePath, ...more }
  return { cli: await serving(env, [], t), directory, path, env }
}

async function refusal(env: Environment, t: TestContext): Promise<string> {
  const { status, stdout, stderr } = await finished(['serve'], { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', ...env }, t)
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  return /^edge cannot start:\n {2}(.*)\n$/.exec(stderr)?.[1] ?? stderr
}

/** A start whose greeting says only "gRPC". */
function startedCli(env: Environment, t: TestContext): Cli {
  const cli = new Cli(['serve'], { EDGE_HOST: '127.0.0.1', EDGE_WORKERS: '1', ...env })
  t.onTestFinished(async () => {
    await cli.stop('SIGKILL')
  })
  return cli
}

/** What grpc.health.v1.Health/Check says. */
async function isServing(path: string): Promise<boolean> {
  const session = connect('http://localhost', { createConnection: () => connectSocket(path) })
  const call = session.request({
    ':method': 'POST',
    ':path': '/grpc.health.v1.Health/Check',
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  call.end(Buffer.alloc(5))
  const chunks: Buffer[] = []
  for await (const chunk of call) chunks.push(chunk as Buffer)
  session.close()
  const [field, status] = Buffer.concat(chunks).subarray(5)
  expect(field).toBe(0x08)
  return status === 1
}

async function statuses(place: Place, times: number): Promise<number[]> {
  const all: number[] = []
  for (let i = 0; i < times; i++) all.push(await decide(place))
  return all
}

async function decide(place: Place): Promise<number> {
  const fields = [
    ['X-Original-Method', 'GET'],
    ['X-Original-URI', '/'],
    ['X-Api-Key', 'alice'],
  ] as const
  return (await ask(place, 'POST', '/v1/decision', fields)).status
}
