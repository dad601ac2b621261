import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { finished, scratchDirectory, serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

describe.concurrent('good values', () => {
  test('all at once', async (t) => {
    const cli = await serving(
      {
        EDGE_MODE: 'decision_service',
        EDGE_BACKEND_URL: 'http://127.0.0.1:9',
        EDGE_LOG_LEVEL: 'warn',
        EDGE_ADMIN_PORT: '0',
        EDGE_TRUSTED_PROXIES: 'loopback, 10.0.0.0/8,2001:db8::/32,192.0.2.1',
        EDGE_STORE_SIZE: '512K',
        EDGE_KEEPALIVE_MS: '1000',
        EDGE_HEADERS_TIMEOUT_MS: '1000',
        EDGE_REQUEST_TIMEOUT_MS: '1000',
        EDGE_DRAIN_MS: '0',
        EDGE_SHUTDOWN_MS: '1000',
        EDGE_CONFIG_FILE: await bundleFile(t, 5),
      },
      [],
      t,
    )
    expect(cli.stdout).toContain('version 5')
    expect(cli.stderr).toBe('')
  })
})

describe.concurrent('variables that are not settings', () => {
  test('are the first lines of the log, and have no other effect', async (t) => {
    const cli = await serving({ EDGE_REDIS_URI: 'hunter2', EDGE_SOMETHING_ELSE: 'hunter2' }, [], t)
    expect(cli.log.slice(0, 2)).toMatchObject([
      { event: 'unknown_variable', level: 'warn', variable: 'EDGE_REDIS_URI', suggestion: 'EDGE_REDIS_URL' },
      { event: 'unknown_variable', level: 'warn', variable: 'EDGE_SOMETHING_ELSE' },
    ])
    expect((await ask(cli.port, 'GET', '/livez')).status).toBe(200)
    expect(cli.stdout + cli.stderr).not.toContain('hunter2')
  })

  test('are named where the start fails, since they may be why', async (t) => {
    const { status, stderr } = await finished(['serve'], { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URI: 'http://hunter2' }, t)
    expect(status).toBe(1)
    expect(stderr).toBe(
      'edge cannot start:\n' +
        '  EDGE_BACKEND_URL: expected a URL, because EDGE_MODE is reverse_proxy; for backends that the bundle names, EDGE_BACKEND_HOSTS is enough\n' +
        '  EDGE_BACKEND_URI is not a setting and has no effect: did you mean EDGE_BACKEND_URL?\n',
    )
  })
})

describe.concurrent('without a bundle', () => {
  test('none configured: live, not ready, decisions 503, and the greeting says how to change that', async (t) => {
    const cli = await serving({}, [], t)
    expect(await ask(cli.port, 'GET', '/livez')).toMatchObject({ status: 200, body: 'ok' })
    expect(await ask(cli.port, 'GET', '/readyz')).toMatchObject({ status: 503, body: '{"status":"not_ready","reason":"no_policy_loaded"}' })
    expect(await ask(cli.port, 'POST', '/v1/decision')).toMatchObject({ status: 503, headers: { 'x-edge-reason': 'no_bundle_loaded' } })
    expect(cli.stdout).toContain('EDGE_CONFIG_FILE')
    expect(cli.stdout).not.toContain('curl')
  })

  test('one that is missing: starts all the same, and is ready when it comes', async (t) => {
    const path = join(await scratchDirectory(t), 'bundle.json')
    const cli = await serving({ EDGE_CONFIG_FILE: path }, [], t)
    expect(cli.stdout).toContain(path)
    expect((await ask(cli.port, 'GET', '/readyz')).status).toBe(503)
    await replaceFile(path, JSON.stringify(bundle(1)))
    await until(async () => (await ask(cli.port, 'GET', '/readyz')).status === 200)
  })
})

async function bundleFile(t: TestContext, version: number): Promise<string> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await replaceFile(path, JSON.stringify(bundle(version)))
  return path
}
