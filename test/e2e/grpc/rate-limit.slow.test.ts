import { describe, expect, test } from 'vitest'
import { ProtobufWriter } from '../../../src/doors/grpc/protobuf-writer.ts'
import { blockRule, bucketRule, bundle, llmRule, matching, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { asking, askingWith, GRPC, inDomain, USER } from '../../support/grpc/asking-rate-limit.ts'
import { sendBytes, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { running } from '../../support/service/running.ts'

describe('an answer', () => {
  test('of a block is over the limit, without one', async () => {
    const [client] = await asking(blockRule('out', { [USER]: 'mallory' }), matching('else', bucketRule('r', [USER], 5)))
    expect(await shouldRateLimit(client, ['user=mallory', 'user=al'])).toEqual({
      overall: 'OVER_LIMIT',
      statuses: ['OVER_LIMIT - 0 -', 'OK - 0 -'],
      headers: { 'x-edge-reason': 'blocked', 'x-should-retry': 'false' },
    })
  })

  test('of an unlimited rule, an unknown domain and a descriptor without a rule is OK without a limit', async () => {
    const [client] = await asking(unlimitedRule('ours', { [USER]: 'us' }))
    expect(await shouldRateLimit(client, ['user=us'])).toEqual({ overall: 'OK', statuses: ['OK - 4294967295 -'], headers: {} })
    expect(await shouldRateLimit(client, ['user=them'])).toEqual({ overall: 'OK', statuses: ['OK - 0 -'], headers: {} })
    expect(await shouldRateLimit(client, ['user=us'], 'nobody')).toEqual({ overall: 'OK', statuses: ['OK - 0 -'], headers: {} })
  })
})

describe('hits', () => {
  test('are the tokens of an LLM rule', async () => {
    const [client] = await asking(llmRule('llm', [USER], { tokens_per_minute: 1000, tokens_per_day: 1500 }))
    expect((await shouldRateLimit(client, [{ entries: 'user=a', hits: 900 }])).statuses).toEqual(['OK llm 1000/MINUTE 100 54s'])
    await shouldRateLimit(client, [{ entries: 'user=a', hits: 700 }])
    expect(await shouldRateLimit(client, [{ entries: 'user=a', hits: 0 }])).toMatchObject({
      overall: 'OVER_LIMIT',
      headers: { 'x-edge-reason': 'tpm_exceeded' },
    })
  })
})

test('a shadow policy changes no answer, and what it would reject is counted', async () => {
  const shadow = policy('s', { mode: 'shadow', selector: { domain: 'd' }, rules: [bucketRule('strict', [USER], 1)] })
  const [client, edge] = await askingWith(bundle(1, shadow))
  for (let i = 0; i < 2; i++)
    expect(await shouldRateLimit(client, ['user=a'])).toEqual({ overall: 'OK', statuses: ['OK - 0 -'], headers: {} })
  expect(await edge.metric('edge_would_reject_total{policy="s",rule="strict",reason="token_bucket_exceeded"}')).toBe(1)
})

test('counters survive a new bundle, and requests over HTTP never meet them', async () => {
  const [client, edge] = await askingWith(bundle(1, inDomain(bucketRule('r', [USER], 2))))
  await shouldRateLimit(client, ['user=a'])
  await edge.publish(bundle(2, policy('new', { rules: [] }), inDomain(matching({ [USER]: '*' }, bucketRule('r', [USER], 2)))))
  expect((await shouldRateLimit(client, ['user=a'])).overall).toBe('OK')
  expect((await shouldRateLimit(client, ['user=a'])).overall).toBe('OVER_LIMIT')
  const { status, headers } = await edge.decide({ fields: [['user', 'a']] })
  expect([status, headers['ratelimit']]).toEqual([200, undefined])
})

test('a limit that the caller sends along is ignored and counted', async () => {
  const [client, edge] = await asking(bucketRule('r', [USER], 1))
  const writer = new ProtobufWriter()
  writer.text(1, 'd')
  const descriptor = writer.open(2)
  const entry = writer.open(1)
  writer.text(1, 'user')
  writer.text(2, 'a')
  writer.close(entry)
  const limit = writer.open(2)
  writer.number(1, 1000)
  writer.number(2, 1)
  writer.close(limit)
  writer.close(descriptor)
  expect(await sendBytes(client, writer.finish())).toBe(0)
  expect((await shouldRateLimit(client, ['user=a'])).overall).toBe('OVER_LIMIT')
  expect(await edge.metric('edge_rate_limit_ignored_limits_total')).toBe(1)
})

test('policies with a domain and no listener for them are told of', async () => {
  const published = bundle(1, inDomain(bucketRule('r', [USER], 1)), policy('q', { rules: [] }))
  expect((await running({ bundle: published })).logged('domains_unserved')).toMatchObject([{ policies: ['p'] }])
  expect((await running({ bundle: published, env: GRPC })).logged('domains_unserved')).toEqual([])
  expect((await running({ bundle: bundle(1) })).logged('domains_unserved')).toEqual([])
})
