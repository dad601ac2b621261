import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { bucketRule, bundle, policy, rateRule } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { example, substituted } from '../support/gateways/gateway.ts'
import { ALICE, behind, edgeAllowing, TWICE } from '../support/gateways/gateway-setup.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { loadBalancerSuite } from '../support/gateways/load-balancer-suite.ts'
import { NGINX, nginxWith } from '../support/gateways/nginx.ts'
import { socketSuite } from '../support/gateways/socket-suite.ts'
import { replayed } from '../support/replay/replaying.ts'
import { ask } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running, scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'

gatewaySuite(NGINX)
socketSuite(NGINX)
loadBalancerSuite(nginxWith(`set_real_ip_from 127.0.0.1;\nreal_ip_header X-Forwarded-For;\n${example('nginx/edge.conf')}`))

describeWith(NGINX.missing, 'nginx with the documented configuration, and a cost by path', () => {
  test('charges it however the path is spelled, and no forged one', async () => {
    const rules = [rateRule('units', [], { rate: '1000/minute', cost: { header: 'x-request-cost' } })]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), clock: new ManualClock() })
    const { port } = await behind(nginxWith(costByPath()), edge)
    const left = []
    for (const path of ['/v1/orders', '/v1/exports', '/v1//exports?x', '/%76%31/exports/7', '/v1/x/../exports']) {
      const { headers } = await ask(port, 'GET', path, [...ALICE, ['X-Request-Cost', '0.01']])
      left.push(headers['ratelimit-remaining'])
    }
    expect(left).toEqual(['999', '979', '959', '939', '919'])
  })
})

describeWith(NGINX.missing, 'nginx that fails open, and does not know what edge said', () => {
  test('lets nothing through', async () => {
    const unasked = substituted(example('nginx/edge.conf'), { 'auth_request_set $edge_status $upstream_status;': 'set $edge_status "";' })
    const { port, backend } = await behind(nginxWith(unasked), await edgeAllowing(1), 'fail open')
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(503)
    expect(backend.seen).toHaveLength(1)
  })
})

describeWith(NGINX.missing, 'nginx with the documented configuration, and a JSON body for rejects', () => {
  test('sends it with the fields of a reject, and leaves other responses as they are', async () => {
    const rejecting = substituted(example('nginx/edge.conf'), {
      'location @edge_rejected {': 'location @edge_rejected {\ndefault_type application/json;',
      'return 429;': nginxBlock('return 429 '),
    })
    const { port } = await behind(nginxWith(rejecting), await edgeAllowing(1))
    const allowed = await ask(port, 'GET', '/', ALICE)
    expect([allowed.status, allowed.headers['content-type']]).not.toContain('application/json')
    const { status, headers, body } = await ask(port, 'GET', '/', ALICE)
    expect([status, headers['content-type'], headers['retry-after']]).toEqual([429, 'application/json', '1'])
    expect([headers['ratelimit'], headers['x-edge-reason']]).toEqual(['"api";r=0;t=1', 'token_bucket_exceeded'])
    const error = { message: 'Too many requests. Retry in 1 s.', type: 'rate_limit_error', code: 'token_bucket_exceeded' }
    expect(JSON.parse(body)).toEqual({ error })
    const refused = await ask(port, 'GET', '/', TWICE)
    expect([refused.status, refused.headers['content-type']]).toEqual([400, 'text/html'])
  })
})

describeWith(NGINX.missing, 'nginx with the documented configuration, and the documented log', () => {
  test('writes requests that edge replay decides as they were decided', async () => {
    const log = join(await scratchDirectory(), 'replay.jsonl')
    const format = nginxBlock('log_format replay ')
    expect(codeBlocks(readText('docs/testing-policies.md'), 'nginx')).toEqual([format])
    const logging = `${substituted(format, { '/var/log/nginx/replay.jsonl': log })}${example('nginx/edge.conf')}`
    // Slow enough for any machine: a replay goes by the times of the log.
    const limited = [
      policy('keys', { selector: { pathPrefix: '/v1' }, rules: [bucketRule('key', ['header:x-api-key'], 2, 1 / 86_400)] }),
      policy('pages', { selector: { hosts: ['127.0.0.1'] }, rules: [bucketRule('page', ['query:page', 'ip:address'], 1, 1 / 86_400)] }),
    ]
    const edge = await running({ bundle: bundle(1, ...limited), clock: new ManualClock() })
    const { port } = await behind(nginxWith(logging), edge)
    const live: number[] = []
    const targets = ['/v1/a', '/v1/"b\\', '/%76%31/c?page=%22x', '/v1/d?page="x', '/other']
    const keys = ['alice', 'q"uo\\te', Buffer.from('zoë').toString('latin1'), '{"}', '']
    for (const key of keys) for (const target of targets) live.push((await ask(port, 'GET', target, [['X-Api-Key', key]])).status)
    const lines = (): number => (existsSync(log) ? readFileSync(log, 'utf8').split('\n').length - 1 : 0)
    await until(() => lines() === live.length)
    const { requests, unreadable, bundles } = await replayed({ 'limits.json': limited, log: readFileSync(log) }, [
      '--bundle',
      'limits.json',
      'log',
    ])
    const count = (status: number): number => live.filter((one) => one === status).length
    expect(count(200)).toBeGreaterThan(5)
    expect(count(200) + count(429)).toBe(live.length)
    expect({ requests, unreadable }).toEqual({ requests: live.length, unreadable: 0 })
    expect(bundles[0]).toMatchObject({ allowed: count(200), rejected: count(429) })
    expect(bundles[0]!.rules.find(({ rule }) => rule === 'key')!.callers).toHaveLength(keys.length - 1)
  })
})

/** The one that begins like this, of the page. */
function nginxBlock(start: string): string {
  const [block] = codeBlocks(readText('docs/gateways/nginx.md'), 'nginx').filter((text) => text.startsWith(start))
  return block!
}

/** What the page says to change. */
function costByPath(): string {
  const page = readText('docs/gateways/nginx.md')
  const map = codeBlocks(page, 'nginx')[1]!
  const [set, field] = ['set $request_cost $cost_of_path;', 'proxy_set_header X-Request-Cost $request_cost;']
  if (!page.includes(set) || !page.includes(field)) throw new Error('the page has changed')
  const charged = substituted(example('nginx/edge.conf'), {
    'location / {': `location / {\n${set}`,
    'proxy_set_header X-Request-Cost "";': field,
  })
  return `${map}${charged}`
}
