import { readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { decideAt, SOCKET_BUNDLE, socketPath } from '../../support/service/unix-socket.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const QUESTION = 'POST /v1/decision HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\nX-Api-Key: alice\r\n'

describe('a unix socket', () => {
  test('is served beside the port, on the same counters', async () => {
    const path = await socketPath()
    const edge = await running({ bundle: SOCKET_BUNDLE, env: { EDGE_SOCKET: path } })
    expect(await untilLogged(edge, 'started')).toMatchObject([{ socket: path, port: edge.port }])
    const places = [path, edge.port, path, edge.port, path]
    const statuses: number[] = []
    for (const place of places) statuses.push(await decideAt(place))
    expect(statuses).toEqual([200, 200, 200, 429, 429])
  })

  test.for([
    [{}, 0o660],
    [{ EDGE_SOCKET_MODE: '0606' }, 0o606],
  ] as const)('has the permissions that are set, whatever the umask: %j', async ([env, mode]) => {
    const paths = [await socketPath(), await socketPath()] as const
    await running({ env: { EDGE_PORT: 'off', EDGE_SOCKET: paths[0], EDGE_GRPC_SOCKET: paths[1], ...env } })
    expect(paths.map((path) => statSync(path).mode & 0o7777)).toEqual([mode, mode])
    // Nothing that was needed to open it is left beside it.
    expect(readdirSync(dirname(paths[0]))).toEqual(['edge.sock'])
  })
})

describe('at shutdown', () => {
  test('an idle connection is closed, and the file is removed', async () => {
    const path = await socketPath()
    const edge = await running({ bundle: SOCKET_BUNDLE, env: { EDGE_PORT: 'off', EDGE_SOCKET: path } })
    const caller = connect(path)
    onTestFinished(() => void caller.destroy())
    const answered = new Promise((resolve) => caller.once('data', resolve))
    const closed = new Promise((resolve) => caller.once('close', resolve))
    caller.write(`${QUESTION}\r\n`)
    await answered
    await edge.stop()
    await closed
    await expect(ask(path, 'GET', '/livez')).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

describe('a path that cannot be used is named, and nothing is changed', () => {
  test('in a directory that does not exist; the socket that was bound before it is gone', async () => {
    const path = await socketPath()
    const missing = join(dirname(path), 'missing')
    const env = { EDGE_PORT: 'off', EDGE_SOCKET: path, EDGE_GRPC_SOCKET: join(missing, 'grpc.sock') }
    const problem = { message: `the directory ${missing} does not exist`, listener: 'grpc_socket' }
    await expect(Edge.start({ env })).rejects.toMatchObject(problem)
    expect(readdirSync(dirname(path))).toEqual([])
  })

  test('in a directory that is a file', async () => {
    const file = await socketPath()
    writeFileSync(file, '')
    await expect(starting(`${file}/edge.sock`)).rejects.toMatchObject({ message: `${file} is not a directory`, listener: 'socket' })
  })

  test('where nothing can be created', async () => {
    await expect(starting('/proc/edge.sock')).rejects.toMatchObject({ message: 'this user is not allowed to create a socket in /proc' })
  })

  test('a symbolic link or a directory', async () => {
    const link = await socketPath()
    symlinkSync('nowhere', link)
    await expect(starting(link)).rejects.toMatchObject({ message: `${link} exists and is not a socket` })
    await expect(starting(dirname(link))).rejects.toMatchObject({ message: `${dirname(link)} exists and is not a socket` })
    expect(readdirSync(dirname(link))).toEqual(['edge.sock'])
  })

  test('a socket that is there when the state file is refused is removed again', async () => {
    const path = await socketPath()
    await expect(starting(path, { EDGE_STATE_FILE: join(dirname(path), 'missing', 'state') })).rejects.toThrow('missing')
    expect(readdirSync(dirname(path))).toEqual([])
  })
})

function starting(path: string, env: Readonly<Record<string, string>> = {}): Promise<Edge> {
  return Edge.start({ env: { EDGE_PORT: 'off', EDGE_SOCKET: path, ...env } })
}
