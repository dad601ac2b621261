import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { describe, expect, type TestContext, test } from 'vitest'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { type Environment, finished, serving } from '../../support/service/running.ts'
import { abandonSocket, socketPath } from '../../support/service/unix-socket.ts'

describe.concurrent('a unix socket', () => {
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

  test('that two take at the same moment is given to one of them, though an abandoned one is there', async (t) => {
    const env = { EDGE_PORT: 'off', EDGE_SOCKET: await socketPath(t) }
    await abandonSocket(env.EDGE_SOCKET)
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
})

async function refusal(env: Environment, t: TestContext): Promise<string> {
  const { status, stdout, stderr } = await finished(['serve'], { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', ...env }, t)
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  return /^edge cannot start:\n {2}(.*)\n$/.exec(stderr)?.[1] ?? stderr
}
