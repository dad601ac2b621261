import { readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startProblem } from '../../../src/cli/start-problem.ts'
import { readConfig } from '../../../src/config/config.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { authorization, check } from '../../support/grpc/ext-authz.ts'
import { rateLimitService, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { LIMITS, linesOf, logging, written } from '../../support/service/decision-log-file.ts'
import { ask } from '../../support/service/http.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

describe('every decided request has a line', () => {
  test('allowed or rejected, by every way to ask over HTTP; a refused one has none', async () => {
    const startedMs = Date.now()
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
    const times = found.map(({ time }) => Date.parse(String(time)))
    // Two clocks of one machine may differ a little.
    expect(Math.min(...times)).toBeGreaterThan(startedMs - 60_000)
    expect(Math.max(...times)).toBeLessThan(Date.now() + 60_000)
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
