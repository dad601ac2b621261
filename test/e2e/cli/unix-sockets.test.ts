import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { connect } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { Cli } from '../../support/service/cli.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { decideAt, SOCKET_BUNDLE, socketPath } from '../../support/service/unix-socket.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
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
    expect(await untilLogged(cli, 'started')).toMatchObject([{ socket: path }])
    expect((await untilLogged(cli, 'started'))[0]).not.toHaveProperty('port')
    expect([await decideAt(path), await decideAt(path), await decideAt(path), await decideAt(path)]).toEqual([200, 200, 200, 429])
    const command = /^ {2}try {5}(.*)$/m.exec(cli.stdout)![1]!
    const { stdout } = await run('sh', ['-c', `${SHOWN_CURL}\n${command}`])
    expect(stdout).toContain(`\n--unix-socket\n${path}\n-X\nPOST\nhttp://localhost/v1/decision\n`)
    expect(await cli.stop()).toBe(0)
    expect(readdirSync(dirname(path))).toEqual([])
  })

  test('can carry gRPC alone', async (t) => {
    const path = await socketPath(t)
    const cli = new Cli(['serve'], { EDGE_PORT: 'off', EDGE_GRPC_SOCKET: path, EDGE_WORKERS: '1' })
    t.onTestFinished(async () => void (await cli.stop('SIGKILL')))
    await until(() => cli.stdout.includes(`  gRPC    unix:${path}\n`))
    expect(cli.stdout).not.toContain('try')
    expect(await untilLogged(cli, 'started')).toMatchObject([{ grpc_socket: path }])
    expect(await healthOf(path)).toBe(NOT_SERVING) // it has no bundle
  })
})

async function bundleFile(t: TestContext): Promise<string> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await replaceFile(path, JSON.stringify(SOCKET_BUNDLE))
  return path
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
