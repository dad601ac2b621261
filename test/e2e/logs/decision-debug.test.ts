import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { logging } from '../../support/service/decision-log-file.ts'
import type { Edge } from '../../support/service/edge.ts'

const DIGEST = /^[0-9a-f]{16}$/
const AUTHORIZATION = [['Authorization', 'Bearer sk-secret']] as const
const DEBUG = { EDGE_LOG_LEVEL: 'debug' }

const BUNDLE = bundle(
  1,
  policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('per-key', ['bearer'], 1, 0.001)] }),
  policy('trial', {
    mode: 'shadow',
    selector: { pathPrefix: '/trial' },
    rules: [bucketRule('two', ['bearer', 'header:x-team'], 1, 0.001)],
  }),
)

test('at level debug, the log has a line for each decision, with the digest of the caller that the decision log has', async () => {
  const { edge, lines } = await logging({ bundle: BUNDLE, env: DEBUG })
  for (const uri of ['/api/a?secret=sk-query', '/api/b', '/trial', '/trial', '/other'])
    await edge.decide({ uri, fields: [...AUTHORIZATION, ['X-Team', 'sk-team']] })
  await edge.post('/v1/decision')
  const logged = (await lines(5))[0]!.headers!['authorization']
  const caller = (logged as string).replace('Bearer ', '')
  const rule = { policy: 'api', rule: 'per-key', caller }
  const trial = { policy: 'trial', rule: 'two', reason: 'token_bucket_exceeded' }
  expect(decisionsOf(edge)).toEqual([
    { door: 'decision', status: 200, action: 'allow', reason: 'all_rules_passed', ...rule },
    { door: 'decision', status: 429, action: 'reject', reason: 'token_bucket_exceeded', ...rule },
    { door: 'decision', status: 200, action: 'allow', reason: 'all_rules_passed' },
    { door: 'decision', status: 200, action: 'allow', ...trial, caller: expect.stringMatching(DIGEST), would_rejects: [trial] },
    { door: 'decision', status: 200, action: 'allow', reason: 'all_rules_passed' },
    { door: 'decision', status: 400, action: 'refuse', reason: 'missing_original_method' },
  ])
  expect(JSON.stringify(edge.log)).not.toContain('sk-')
})

test('at level debug, so it has in reverse_proxy', async () => {
  const edge = await proxying(await HttpBackend.start(), { bundle: BUNDLE, env: DEBUG })
  for (let i = 0; i < 2; i++) await edge.get('/api', AUTHORIZATION)
  const rule = { door: 'proxy', policy: 'api', rule: 'per-key', caller: expect.stringMatching(DIGEST) }
  expect(decisionsOf(edge)).toEqual([
    { ...rule, status: 200, action: 'allow', reason: 'all_rules_passed' },
    { ...rule, status: 429, action: 'reject', reason: 'token_bucket_exceeded' },
  ])
  expect(JSON.stringify(edge.log)).not.toContain('sk-')
})

test('at level info, it has none', async () => {
  const edge = await proxying(await HttpBackend.start(), { bundle: BUNDLE, env: { EDGE_LOG_LEVEL: 'info' } })
  await edge.get('/api', AUTHORIZATION)
  expect(decisionsOf(edge)).toEqual([])
})

/** Without what pino adds. */
function decisionsOf(edge: Edge): Record<string, unknown>[] {
  return edge.log
    .filter(({ event }) => event === 'decision')
    .map(({ level: _level, time: _time, pid: _pid, hostname: _hostname, msg: _msg, event: _event, ...line }) => line)
}
