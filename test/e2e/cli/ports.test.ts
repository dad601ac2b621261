import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { finished, scratchDirectory, serving } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'

const LOOPBACK = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1' }

describe.concurrent('ports', () => {
  test.for(['EDGE_PORT', 'EDGE_ADMIN_PORT'])('%s that is taken: 1, named', async (variable, t) => {
    const taken = await takenPort(t)
    const { status, stdout, stderr } = await finished(['serve'], { ...LOOPBACK, [variable]: String(taken) }, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`${variable}: port ${taken} is in use`)
    expect(stderr).not.toContain('    at ')
  })

  test('EDGE_ADMIN_PORT moves everything but decisions', async (t) => {
    const cli = await serving({ EDGE_ADMIN_PORT: '0', EDGE_CONFIG_FILE: await bundleFile(t), EDGE_DEBUG_SESSION_SECRET: 's' }, [], t)
    const admin = Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
    expect(admin).not.toBe(cli.port)
    for (const path of ['/livez', '/readyz', '/metrics']) {
      expect({ path, status: (await ask(admin, 'GET', path)).status }).toEqual({ path, status: 200 })
      expect({ path, status: (await ask(cli.port, 'GET', path)).status }).toEqual({ path, status: 404 })
    }
    const secret = [['X-Edge-Debug-Secret', 's']] as const
    expect((await ask(admin, 'POST', '/v1/debug/session', secret)).status).toBe(204)
    expect((await ask(cli.port, 'POST', '/v1/debug/session', secret)).status).toBe(404)
    expect((await ask(admin, 'POST', '/v1/debug/logout')).status).toBe(204)
    expect((await ask(cli.port, 'POST', '/v1/debug/logout')).status).toBe(404)
    expect((await ask(admin, 'POST', '/v1/decision')).status).toBe(404)
    expect((await ask(cli.port, 'POST', '/v1/decision')).status).toBe(400)
  })

  test('EDGE_HOST is the one address that answers', async (t) => {
    // With a port of its own: what the kernel lends for one address may be in use on another.
    const cli = await serving({ EDGE_HOST: '127.0.0.2', EDGE_PORT: String(await serverPort()), EDGE_ADMIN_PORT: '0' }, [], t)
    expect(cli.stdout).toMatch(/listens http:\/\/127\.0\.0\.2:\d+\n/)
    await expect(ask(cli.port, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    expect(await cli.stop()).toBe(0)
  })

  // The second is one of a link, and says not of which.
  test.for(['192.0.2.1', 'fe80::1'])('EDGE_HOST that is no address of this machine: 1, named: %s', async (host, t) => {
    const { status, stdout, stderr } = await finished(['serve'], { EDGE_PORT: '0', EDGE_HOST: host }, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`EDGE_HOST: "${host}" is not an address of this machine`)
  })
})

async function bundleFile(t: TestContext): Promise<string> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await replaceFile(path, JSON.stringify(bundle(1)))
  return path
}

async function takenPort(t: TestContext): Promise<number> {
  const server = createServer()
  t.onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as { port: number }).port
}
