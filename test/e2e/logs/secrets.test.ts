import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, jwt, policy } from '../../support/bundles/bundles.ts'
import { ask, exchange } from '../../support/service/http.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const SECRETS = {
  debugSecret: 'debug-secret-7f3a9c',
  wrongSecret: 'wrong-secret-51d2e8',
  apiKey: 'api-key-c0ffee42',
  claim: 'claim-value-9b8a7c',
  password: 'backend-password-77aa',
  query: 'query-token-3d3d3d',
  otherCookie: 'other-cookie-1f1f1f',
}

test('no secret, token, cookie or key shows up in any output or metric of a run that used them all', async () => {
  const path = join(await scratchDirectory(), 'bundle.json')
  const rules = [bucketRule('per-key', ['header:x-api-key', 'jwt:sub'], 1, 0.001), bucketRule('missing', ['header:x-none'], 1)]
  await writeFile(path, JSON.stringify(bundle(1, policy('enforcing', { rules }), policy('trial', { mode: 'shadow', rules }))))
  const cli = await serving({
    EDGE_LOG_LEVEL: 'trace',
    EDGE_CONFIG_FILE: path,
    EDGE_DEBUG_SESSION_SECRET: SECRETS.debugSecret,
  })
  const token = jwt({ sub: SECRETS.claim })
  const login = async (secret: string) => ask(cli.port, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', secret]])

  expect((await login(SECRETS.wrongSecret)).status).toBe(403)
  const cookie = /edge_dbg=([^;]+)/.exec((await login(SECRETS.debugSecret)).headers['set-cookie']!)![1]!
  const fields = original(
    `/x?token=${SECRETS.query}`,
    ['X-Api-Key', SECRETS.apiKey],
    ['Authorization', `Bearer ${token}`],
    ['Cookie', `session=${SECRETS.otherCookie}; edge_dbg=${cookie}`],
  )
  const answers = [await ask(cli.port, 'POST', '/v1/decision', fields), await ask(cli.port, 'POST', '/v1/decision', fields)]
  expect(answers.map(({ status }) => status)).toEqual([200, 429])
  // The debug headers are for the operator: this shows that the values did come in.
  expect(answers[1]!.headers).toMatchObject({
    'x-edge-debug-descriptor-1-value': SECRETS.apiKey,
    'x-edge-debug-descriptor-2-value': SECRETS.claim,
  })
  await ask(cli.port, 'POST', '/v1/decision', [...fields, ['X-Original-URI', '/again']])
  await exchange(
    cli.port,
    `POST /v1/decision HTTP/1.1\r\nAuthorization: Bearer ${token}\r\nX-Api-Key: ${SECRETS.apiKey}\r\nbroken line\r\n\r\n`,
  )
  await ask(cli.port, 'POST', `/nowhere?token=${SECRETS.query}`, [['X-Edge-Debug-Secret', SECRETS.debugSecret]])
  const metrics = await ask(cli.port, 'GET', '/metrics')
  expect((await ask(cli.port, 'POST', '/v1/debug/logout', [['Cookie', `edge_dbg=${cookie}`]])).status).toBe(204)

  await writeFile(path, '{"bundle_version":')
  cli.process.kill('SIGHUP')
  await until(() => cli.log.some(({ event }) => event === 'bundle_refused'))
  expect(await cli.stop()).toBe(0)

  const events = cli.log.map(({ event }) => event)
  for (const event of ['debug_session_refused', 'debug_session_opened', 'reject', 'bundle_refused', 'stopped'])
    expect(events).toContain(event)
  const output = `${cli.stdout}${cli.stderr}${metrics.body}`
  for (const [name, secret] of Object.entries({ ...SECRETS, cookie, token, payload: token.split('.')[1]! })) {
    expect({ name, isShown: output.includes(secret) }).toEqual({ name, isShown: false })
  }
})
