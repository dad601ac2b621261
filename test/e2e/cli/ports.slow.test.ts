import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { describe, expect, test } from 'vitest'
import { ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { ask } from '../../support/service/http.ts'
import { finished, serving } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === '::1'))

describe.concurrent('the program', () => {
  test('names EDGE_ADMIN_PORT that is taken: 1', async (t) => {
    const server = createServer()
    t.onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const env = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_ADMIN_PORT: String(port) }
    const { status, stdout, stderr } = await finished(['serve'], env, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`EDGE_ADMIN_PORT: port ${port} is in use`)
    expect(stderr).not.toContain('    at ')
  })

  test('listens on EDGE_HOST alone, and says so, beside an admin port', async (t) => {
    const env = { EDGE_HOST: '127.0.0.2', EDGE_PORT: String(await serverPort()), EDGE_ADMIN_PORT: '0' }
    const cli = await serving(env, [], t)
    expect(cli.stdout).toMatch(/listens http:\/\/127\.0\.0\.2:\d+\n/)
    const admin = Number(/admin\s+http:\/\/127\.0\.0\.2:(\d+)/.exec(cli.stdout)![1])
    expect(admin).not.toBe(cli.port)
    await expect(ask(cli.port, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    expect(await cli.stop()).toBe(0)
  })

  test('listens on EDGE_ADMIN_HOST with its admin port alone, and says so', async (t) => {
    const cli = await serving({ EDGE_HOST: '127.0.0.1', EDGE_ADMIN_PORT: '0', EDGE_ADMIN_HOST: '127.0.0.2' }, [], t)
    expect(cli.stdout).toMatch(/listens http:\/\/127\.0\.0\.1:\d+\n {2}admin {3}http:\/\/127\.0\.0\.2:\d+\n/)
    expect(await cli.stop()).toBe(0)
  })

  test.runIf(hasIpv6)('listens on an EDGE_ADMIN_HOST of IPv6, and the commands ask there', async (t) => {
    const port = String(await serverPort())
    const admin = { EDGE_ADMIN_HOST: '::1', EDGE_ADMIN_PORT: port, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
    const cli = await serving({ EDGE_HOST: '', ...admin }, [], t)
    expect(cli.stdout).toContain(`  admin   http://[::1]:${port}\n`)
    expect(await untilLogged(cli, 'admin_listening')).toMatchObject([{ host: '::1' }])
    expect(cli.logged('admin_token_unencrypted')).toEqual([])
    await expect(ask(Number(port), 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    const { status, stdout } = await finished(['status'], admin, t)
    expect(status).toBe(0)
    expect(stdout).toContain('No problems.\n')
    expect(await cli.stop()).toBe(0)
  })

  test('says of each port that it is open on all interfaces', async (t) => {
    const cli = await serving({ EDGE_HOST: '', EDGE_ADMIN_PORT: '0' }, [], t)
    expect(cli.stdout).toMatch(
      /listens http:\/\/localhost:\d+ \(all interfaces\)\n {2}admin {3}http:\/\/localhost:\d+ \(all interfaces\)\n/,
    )
    expect(await cli.stop()).toBe(0)
  })

  test('names EDGE_ADMIN_HOST that is no address of this machine: 1', async (t) => {
    const { status, stderr } = await finished(['serve'], { EDGE_PORT: '0', EDGE_ADMIN_PORT: '0', EDGE_ADMIN_HOST: '192.0.2.1' }, t)
    expect(status).toBe(1)
    expect(stderr).toContain('EDGE_ADMIN_HOST: "192.0.2.1" is not an address of this machine')
  })

  // The second is one of a link, and says not of which.
  test.for(['192.0.2.1', 'fe80::1'])('names EDGE_HOST that is no address of this machine: 1: %s', async (host, t) => {
    const { status, stdout, stderr } = await finished(['serve'], { EDGE_PORT: '0', EDGE_HOST: host }, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`EDGE_HOST: "${host}" is not an address of this machine`)
  })
})
