import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { type Environment, finished, scratchDirectory, serving } from '../../support/service/running.ts'
import { decideAt, SOCKET_BUNDLE, socketPath } from '../../support/service/unix-socket.ts'
import { until } from '../../support/until.ts'

const run = promisify(execFile)
/** Prints what curl would be given. */
const SHOWN_CURL = `curl() { printf '%s\\n' "$@"; }`

describe.concurrent('a unix socket', () => {
  test('takes the place of the port: the greeting and the log name it, and it is gone after a shutdown', async (t) => {
    const path = await socketPath(t, "it's here.sock")
    const cli = await serving({ EDGE_PORT: 'off', EDGE_SOCKET: path, EDGE_CONFIG_FILE: await bundleFile(t) }, [], t)
    expect(cli.stdout).toContain(`  listens unix:${path}\n`)
    expect(cli.stdout).not.toContain('http://127.0.0.1')
    expect(cli.logged('started')).toMatchObject([{ socket: path }])
    expect(cli.logged('started')[0]).not.toHaveProperty('port')
    expect([await decideAt(path), await decideAt(path), await decideAt(path), await decideAt(path)]).toEqual([200, 200, 200, 429])
    const command = /^ {2}try {5}(.*)$/m.exec(cli.stdout)![1]!
    const { stdout } = await run('sh', ['-c', `${SHOWN_CURL}\n${command}`])
    expect(stdout).toContain(`\n--unix-socket\n${path}\nhttp://localhost/v1/decision\n`)
    expect(await cli.stop()).toBe(0)
    expect(readdirSync(dirname(path))).toEqual([])
  })

  test('that a crash left behind is replaced', async (t) => {
    const env = { EDGE_PORT: 'off', EDGE_SOCKET: await socketPath(t) }
    const crashed = await serving(env, [], t)
    await crashed.stop('SIGKILL')
    expect(statSync(env.EDGE_SOCKET).isSocket()).toBe(true)
    await serving(env, [], t)
    expect((await ask(env.EDGE_SOCKET, 'GET', '/livez')).status).toBe(200)
  })

  test('on which another instance listens is refused, and the other goes on', async (t) => {
    const path = await socketPath(t)
    await serving({ EDGE_PORT: 'off', EDGE_SOCKET: path }, [], t)
    const env = { EDGE_PORT: 'off', EDGE_GRPC_SOCKET: path }
    expect(await refusal(env, t)).toBe(`EDGE_GRPC_SOCKET: ${path} is in use by another process`)
    expect((await ask(path, 'GET', '/livez')).status).toBe(200)
  })

  test('that two take at the same moment is given to one of them', async (t) => {
    const env = { EDGE_PORT: 'off', EDGE_SOCKET: await socketPath(t) }
    const both = await Promise.all([serving(env, [], t), serving(env, [], t)])
    const isUp = (cli: Cli): boolean => cli.stdout.includes('listens')
    expect(both.filter(isUp)).toHaveLength(1)
    const loser = both.find((cli) => !isUp(cli))!
    expect(await loser.exited).toBe(1)
    expect(loser.stderr).toContain(`EDGE_SOCKET: ${env.EDGE_SOCKET} is in use by another process\n`)
    expect((await ask(env.EDGE_SOCKET, 'GET', '/livez')).status).toBe(200)
  })

  test('does not replace a file that is not one', async (t) => {
    const path = await socketPath(t, 'precious')
    writeFileSync(path, 'precious')
    expect(await refusal({ EDGE_SOCKET: path }, t)).toBe(`EDGE_SOCKET: ${path} exists and is not a socket`)
    expect(readFileSync(path, 'utf8')).toBe('precious')
  })

  test('can carry gRPC alone', async (t) => {
    const path = await socketPath(t)
    const cli = new Cli(['serve'], { EDGE_PORT: 'off', EDGE_GRPC_SOCKET: path, EDGE_WORKERS: '1' })
    t.onTestFinished(async () => void (await cli.stop('SIGKILL')))
    await until(() => cli.stdout.includes(`  gRPC    unix:${path}\n`))
    expect(cli.stdout).not.toContain('try')
    await until(() => cli.logged('started').length > 0)
    expect(cli.logged('started')).toMatchObject([{ grpc_socket: path }])
    expect(await healthOf(path)).toBe(NOT_SERVING) // it has no bundle
  })
})

async function bundleFile(t: TestContext): Promise<string> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await replaceFile(path, JSON.stringify(SOCKET_BUNDLE))
  return path
}

async function refusal(env: Environment, t: TestContext): Promise<string> {
  const { status, stdout, stderr } = await finished(['serve'], { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', ...env }, t)
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  return /^edge cannot start:\n {2}(.*)\n$/.exec(stderr)?.[1] ?? stderr
}

const NOT_SERVING = 2

/** The status that grpc.health.v1.Health/Check returns. */
async function healthOf(path: string): Promise<number> {
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
  return Buffer.concat(chunks).at(-1)!
}
