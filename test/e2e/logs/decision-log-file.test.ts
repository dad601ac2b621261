import { mkdir, readFile, rename, rmdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startProblem } from '../../../src/cli/start-problem.ts'
import { readConfig } from '../../../src/config/config.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, llmRule, matching, policy } from '../../support/bundles/bundles.ts'
import { authorization, check } from '../../support/grpc/ext-authz.ts'
import { rateLimitService, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const LIMITS = bundle(
  1,
  policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], 2, 0.001), bucketRule('user', ['bearer'], 9)] }),
)

type Line = Record<string, unknown> & { readonly headers?: Record<string, unknown> }

async function linesOf(path: string): Promise<Line[]> {
  const text = await readFile(path, 'utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
}

/** The service with a log of this name, which is written when there are so many lines. */
async function logging(
  options: Parameters<typeof running>[0] = {},
): Promise<{ edge: Edge; path: string; lines(count: number): Promise<Line[]> }> {
  const path = join(await scratchDirectory(), 'decisions.log')
  const edge = await running({ bundle: LIMITS, ...options, env: { EDGE_DECISION_LOG: path, ...options.env } })
  return { edge, path, lines: (count) => written(path, count) }
}

async function written(path: string, count: number): Promise<Line[]> {
  let lines: Line[] = []
  await until(async () => {
    lines = await linesOf(path)
    return lines.length >= count
  })
  expect(lines).toHaveLength(count)
  return lines
}

describe('every decided request has a line', () => {
  test('allowed or rejected, by every way to ask over HTTP; a refused one has none', async () => {
    const { edge, path, lines } = await logging()
    const key = ['X-Api-Key', 'alice'] as const
    expect((await edge.decide({ uri: '/a?secret=1', fields: [key, ['X-Other', 'o']] })).status).toBe(200)
    await edge.get('/v1/forward-auth', [['X-Forwarded-Method', 'PUT'], ['X-Forwarded-Uri', '/b'], ['X-Forwarded-Host', 'h'], key])
    expect((await edge.get('/v1/auth-request', [['X-Original-URL', 'http://h/c'], ['X-Original-Method', 'GET'], key])).status).toBe(429)
    expect((await edge.get('/v1/ext-authz/d', [key])).status).toBe(429)
    expect((await edge.decide({ uri: '/e', fields: [key, key] })).status).toBe(400)
    expect((await edge.post('/v1/decision')).status).toBe(400)
    const found = await lines(4)
    expect(found.map(({ method, uri, headers }) => [method, uri, headers])).toEqual([
      ['GET', '/a', { 'x-api-key': 'alice' }],
      ['PUT', '/b', { 'x-api-key': 'alice' }],
      ['GET', '/c', { 'x-api-key': 'alice' }],
      ['GET', '/d', { 'x-api-key': 'alice' }],
    ])
    for (const { time } of found) expect(Math.abs(Date.parse(String(time)) - Date.now())).toBeLessThan(60_000)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await edge.metric('edge_decision_log_lines_total{result="written"}')).toBe(4)
  })

  test('over gRPC, but not calls of the rate limit service', async () => {
    const domain = policy('calls', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:user'], 9)] })
    const api = policy('api', { rules: [bucketRule('r', ['context:tenant'], 9), bucketRule('a', ['ip:address'], 9)] })
    const { edge, lines } = await logging({ bundle: bundle(1, api, domain), env: { EDGE_GRPC_PORT: '0' } })
    await shouldRateLimit(rateLimitService(edge.grpcPort), ['user=u'])
    await check(authorization(edge.grpcPort), { path: '/g', source: '203.0.113.9', context: { tenant: 't1', other: 'o' } })
    const [line] = await lines(1)
    expect(line).toMatchObject({ method: 'GET', uri: '/g', client: '203.0.113.9', context: { tenant: 't1' } })
  })

  test('in reverse_proxy, with what the body costs, once', async () => {
    const path = join(await scratchDirectory(), 'decisions.log')
    const policies = [policy('models', { rules: [matching({ 'llm:model': 'gpt-*' }, bucketRule('r', ['header:x-api-key'], 9))] })]
    const proxy = await llmProxy(await fakeLlm(), { policies, env: { EDGE_DECISION_LOG: path } })
    const body = JSON.stringify({ model: 'gpt-4o', max_tokens: 50, messages: HELLO })
    const fields = [
      ['Content-Type', 'application/json'],
      ['X-Api-Key', 'k'],
    ] as const
    expect((await ask(proxy.edge.port, 'POST', CHAT, fields, body)).status).toBe(200)
    const [line] = await written(path, 1)
    expect(line).toMatchObject({ method: 'POST', uri: CHAT })
    expect(line!.headers).toEqual({
      'x-api-key': 'k',
      'x-edge-prompt-tokens': String(HELLO_TOKENS),
      'x-edge-max-tokens': '50',
      'x-edge-model': 'gpt-4o',
    })
  })

  test('with what a gateway states of the body', async () => {
    const limits = bundle(1, policy('llm', { rules: [llmRule('tokens', [], { tokens_per_minute: 1000 })] }))
    const { edge, lines } = await logging({ bundle: limits, env: { EDGE_GATEWAY_HINTS: 'on' } })
    await edge.decide({
      fields: [
        ['X-Edge-Prompt-Tokens', '7'],
        ['X-Edge-Max-Tokens', '9'],
      ],
    })
    await edge.decide()
    const [stated, silent] = await lines(2)
    expect([stated!.headers, silent!.headers]).toEqual([{ 'x-edge-prompt-tokens': '7', 'x-edge-max-tokens': '9' }, undefined])
  })

  test('after a reload, with what the new bundle reads', async () => {
    const { edge, lines } = await logging()
    const fields = [
      ['X-Api-Key', 'alice'],
      ['X-Team', 'red'],
    ] as const
    await edge.decide({ fields })
    await edge.publish(bundle(2, policy('api', { rules: [bucketRule('r', ['header:x-team'], 9)] })))
    await edge.decide({ fields })
    expect((await lines(2)).map(({ headers }) => headers)).toEqual([{ 'x-api-key': 'alice' }, { 'x-team': 'red' }])
  })
})

test('credentials are digests, the same for the same caller', async () => {
  const { edge, path, lines } = await logging()
  for (const token of ['sk-one', 'sk-two', 'sk-one']) await edge.decide({ fields: [['Authorization', `Bearer ${token}`]] })
  const [one, two, again] = (await lines(3)).map(({ headers }) => headers!['authorization'])
  expect(one).toMatch(/^Bearer [0-9a-f]{16}$/)
  expect(again).toBe(one)
  expect(two).not.toBe(one)
  expect(await readFile(path, 'utf8')).not.toContain('sk-')
})

describe('the file', () => {
  test('goes on where it was, and never continues a line that was broken off', async () => {
    const path = join(await scratchDirectory(), 'decisions.log')
    await writeFile(path, '{"time":"2026-01-0')
    const edge = await running({ bundle: LIMITS, env: { EDGE_DECISION_LOG: path } })
    await edge.decide({ uri: '/next' })
    await until(async () => (await readFile(path, 'utf8')).endsWith('}\n'))
    expect(await readFile(path, 'utf8')).toMatch(/^\{"time":"2026-01-0\n\{.*"uri":"\/next"\}\n$/)
  })

  test('is replaced by a new one when it was renamed, as logrotate does', async () => {
    const { edge, path, lines } = await logging()
    await edge.decide({ uri: '/before' })
    await lines(1)
    await rename(path, `${path}.1`)
    await edge.decide({ uri: '/after' })
    await until(async () => (await stat(path).catch(() => undefined)) !== undefined)
    expect((await lines(1))[0]).toMatchObject({ uri: '/after' })
    expect(await linesOf(`${path}.1`)).toHaveLength(1)
  })

  test('that cannot be written costs lines, which are counted and reported, and no decision', async () => {
    const { edge, path, lines } = await logging({ env: ADMIN_ENV })
    await edge.decide({ uri: '/before' })
    await lines(1)
    await rename(path, `${path}.1`)
    await mkdir(path)
    expect((await edge.decide({ uri: '/lost' })).status).toBe(200)
    await until(() => edge.logged('decision_log_not_written').length === 1)
    expect(edge.logged('decision_log_not_written')[0]).toMatchObject({ path, reason: 'it is not a regular file' })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'status')
    expect(json).toMatchObject({ problems: [{ code: 'decision_log_not_written' }] })
    await rmdir(path)
    await edge.decide({ uri: '/after' })
    await until(() => edge.logged('decision_log_written_again').length === 1)
    expect((await lines(1))[0]).toMatchObject({ uri: '/after' })
    const metrics = (await ask(edge.adminPort, 'GET', '/metrics')).body
    expect(metrics).toContain('edge_decision_log_lines_total{result="failed"} 1\n')
    expect(metrics).toContain('edge_decision_log_lines_total{result="written"} 2\n')
  })

  test('has no line of a request that is too long for one, which is counted', async () => {
    const { edge, lines } = await logging()
    await edge.decide({ uri: `/${'x'.repeat(17_000)}` })
    await edge.decide({ uri: '/short' })
    expect((await lines(1))[0]).toMatchObject({ uri: '/short' })
    expect(await edge.metric('edge_decision_log_lines_total{result="too_long"}')).toBe(1)
  })

  test('is not there unless it is asked for', async () => {
    const edge = await running({ bundle: LIMITS })
    await edge.decide()
    expect((await edge.get('/metrics')).body).not.toMatch(/^edge_decision_log_lines_total\{/m)
  })
})

describe('a path that cannot be written stops the start with a sentence', () => {
  test.each([
    ['its directory does not exist', (directory: string) => join(directory, 'none', 'decisions.log')],
    ['it is not a regular file', (directory: string) => directory],
    ['it is not a regular file', () => '/dev/null'],
  ])('%s', async (problem, pathIn) => {
    const path = pathIn(await scratchDirectory())
    const env = { EDGE_DECISION_LOG: path }
    const failure = await running({ env }).then(
      () => expect.unreachable(),
      (error: Error) => error,
    )
    const read = readConfig(env, {})
    expect(read.ok && startProblem(read.config, failure)).toBe(`EDGE_DECISION_LOG: cannot write ${path}: ${problem}`)
  })
})

describeWithRedis('with counters in Redis', () => {
  test('lines are the same', async () => {
    const redis = await runningRedis()
    const { edge, lines } = await logging({ env: { EDGE_REDIS_URL: redis.url, EDGE_REDIS_TIMEOUT_MS: '60000' } })
    expect(await edge.decideTimes(3, { uri: '/r', fields: [['X-Api-Key', 'alice']] })).toEqual([200, 200, 429])
    for (const line of await lines(3)) expect(line).toMatchObject({ uri: '/r', headers: { 'x-api-key': 'alice' } })
  })
})
