import { createServer } from 'node:net'
import { describe, expect, type TestContext, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { finished, running } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

// More ways in which a start fails: ports.slow.test.ts
describe('ports', () => {
  test('EDGE_PORT that is taken: 1, named', async (t) => {
    const taken = await takenPort(t)
    const { status, stdout, stderr } = await finished(['serve'], { EDGE_PORT: String(taken), EDGE_HOST: '127.0.0.1', EDGE_WORKERS: '1' }, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`EDGE_PORT: port ${taken} is in use`)
    expect(stderr).not.toContain('    at ')
  })

  test('EDGE_ADMIN_PORT moves everything but decisions', async () => {
    const edge = await running({ bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0', EDGE_DEBUG_SESSION_SECRET: 's' } })
    const admin = edge.adminPort
    expect(admin).not.toBe(edge.port)
    for (const path of ['/livez', '/readyz', '/metrics']) {
      expect({ path, status: (await ask(admin, 'GET', path)).status }).toEqual({ path, status: 200 })
      expect({ path, status: (await ask(edge.port, 'GET', path)).status }).toEqual({ path, status: 404 })
    }
    const secret = [['X-Edge-Debug-Secret', 's']] as const
    expect((await ask(admin, 'POST', '/v1/debug/session', secret)).status).toBe(204)
    expect((await ask(edge.port, 'POST', '/v1/debug/session', secret)).status).toBe(404)
    expect((await ask(admin, 'POST', '/v1/debug/logout')).status).toBe(204)
    expect((await ask(edge.port, 'POST', '/v1/debug/logout')).status).toBe(404)
    expect((await ask(admin, 'POST', '/v1/decision')).status).toBe(404)
    expect((await ask(edge.port, 'POST', '/v1/decision')).status).toBe(400)
  })

  test('/ says where the page is, on every port that does not have it', async () => {
    const edge = await running({ bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0' } })
    const alone = await running({ bundle: bundle(1) })
    const page = /operators' page is on EDGE_ADMIN_PORT, if EDGE_ADMIN_TOKEN is set too\n$/
    for (const port of [edge.port, edge.adminPort, alone.port]) {
      for (const path of ['/', '/?x=1'])
        expect(await ask(port, 'GET', path)).toMatchObject({ status: 404, body: expect.stringMatching(page) })
      expect(await ask(port, 'GET', '/x')).toMatchObject({ status: 404, body: 'no such endpoint\n' })
    }
  })

  test('EDGE_HOST is the one address that answers', async () => {
    // With a port of its own: what the kernel lends for one address may be in use on another.
    const env = { EDGE_HOST: '127.0.0.2', EDGE_PORT: String(await serverPort()), EDGE_ADMIN_PORT: '0' }
    const edge = await running({ env })
    expect(edge.service.addresses.get('main')).toMatchObject({ host: '127.0.0.2' })
    await expect(ask(edge.port, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })
})

describe('EDGE_ADMIN_HOST', () => {
  test('is the one address of the admin port, and of no other', async () => {
    const env = { ...ADMIN_ENV, EDGE_ADMIN_PORT: String(await serverPort()), EDGE_ADMIN_HOST: '127.0.0.2' }
    const edge = await running({ bundle: bundle(1), env })
    expect(edge.service.addresses.get('admin')).toMatchObject({ host: '127.0.0.2' })
    expect(await untilLogged(edge, 'admin_listening')).toMatchObject([{ host: '127.0.0.2', port: edge.adminPort }])
    await expect(ask(edge.adminPort, 'GET', '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    expect((await edge.decide()).status).toBe(200)
  })

  test.each([
    ['no address', { EDGE_ADMIN_HOST: '0.0.0.0' }, 1],
    ['a loopback address', { EDGE_HOST: '0.0.0.0', EDGE_ADMIN_HOST: '127.0.0.3' }, 0],
    ['the name of this machine', { EDGE_HOST: '0.0.0.0', EDGE_ADMIN_HOST: 'localhost' }, 0],
    ['that of EDGE_HOST', { EDGE_HOST: '127.0.0.1' }, 0],
    ['that of EDGE_HOST, which others reach', { EDGE_HOST: '0.0.0.0' }, 1],
    ['one that others reach, but no token', { EDGE_ADMIN_HOST: '0.0.0.0', EDGE_ADMIN_TOKEN: '' }, 0],
  ])('with %s: the log warns of a token over plain HTTP where other machines can send it', async (_, env, warnings) => {
    const edge = await running({ env: { ...ADMIN_ENV, ...env } })
    expect(edge.logged('admin_token_unencrypted')).toHaveLength(warnings)
    expect(JSON.stringify(edge.log)).not.toContain(ADMIN_TOKEN)
  })
})

async function takenPort(t: TestContext): Promise<number> {
  const server = createServer()
  t.onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as { port: number }).port
}
