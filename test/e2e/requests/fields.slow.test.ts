import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, jwt, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'

const UNTOUCHED_NAMES = ['__proto__', 'constructor', 'hasOwnProperty', 'toString', 'prototype', 'valueOf', '__defineGetter__']

describe.concurrent('1,100 header fields', () => {
  const crowd = Array.from({ length: 1100 }, (_, i) => [`X-F${i}`, 'v'] as const)

  test('with the originals last: they are read', async (t) => {
    const edge = await oneKey(t, 'header:x-f0', 2)
    expect(await statuses(edge, [...crowd, ...original('/')], 3)).toEqual([200, 200, 429])
  })

  test('with a second URI last: it is seen', async (t) => {
    const edge = await oneKey(t, 'header:x-f0', 2)
    const [answer] = await wire(edge, original('/', ...crowd, ['X-Original-URI', '/free']))
    expect(answer).toMatchObject({ status: 400, headers: { 'x-edge-reason': 'repeated_original_uri' } })
  })

  test('with the token last: its claim counts', async (t) => {
    const edge = await oneKey(t, 'jwt:sub', 1)
    const fields = original('/', ...crowd, ['Authorization', `Bearer ${jwt({ sub: 'alice' })}`])
    expect(await statuses(edge, fields, 2)).toEqual([200, 429])
  })
})

describe.concurrent('names that objects are born with', () => {
  test.for(UNTOUCHED_NAMES)('jwt:%s is missing when it does not come, and counts when it does', async (name, t) => {
    const edge = await oneKey(t, `jwt:${name}`, 1)
    const token = (claims: string): Fields => original('/', ['Authorization', `Bearer e30.${Buffer.from(claims).toString('base64url')}.`])
    expect(await statuses(edge, token('{"sub":"a"}'), 3)).toEqual([200, 200, 200])
    expect(await statuses(edge, token('{"sub":{}}'), 1)).toEqual([200])
    expect(await edge.metric(`edge_descriptor_missing_total{key="jwt:${name}"}`)).toBe(4)
    expect(await statuses(edge, token(`{"${name}":"a"}`), 2)).toEqual([200, 429])
    expect(await statuses(edge, token(`{"${name}":"b"}`), 2)).toEqual([200, 429])
  })

  test.for(['sub.__proto__', 'sub.constructor.name', '__proto__.toString', 'sub.length', 'list.length', 'list.0'])(
    'jwt:%s reaches nothing that the token did not say',
    async (claim, t) => {
      const edge = await oneKey(t, `jwt:${claim}`, 1)
      const fields = original('/', ['Authorization', `Bearer ${jwt({ sub: 'alice', list: ['x'], nested: {} })}`])
      expect(await statuses(edge, fields, 3)).toEqual([200, 200, 200])
      expect(await edge.metric(`edge_descriptor_missing_total{key="jwt:${claim}"}`)).toBe(3)
    },
  )
})

describe.concurrent('header values', () => {
  test('of 30 KB count to their last byte', async (t) => {
    const edge = await oneKey(t, 'header:x-caller', 1)
    const long = 'x'.repeat(30_000)
    expect(await statuses(edge, original('/', ['X-Caller', `${long}a`]), 2)).toEqual([200, 429])
    expect(await statuses(edge, original('/', ['X-Caller', `${long}b`]), 2)).toEqual([200, 429])
  })
})

function oneKey(t: TestContext, key: string, burst: number): Promise<Edge> {
  return running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [key], burst)] })), clock: new ManualClock() }, t)
}

async function statuses(edge: Edge, fields: Fields, times: number): Promise<number[]> {
  const found: number[] = []
  for (let i = 0; i < times; i++) found.push(...(await wire(edge, fields)).map(({ status }) => status))
  return found
}

async function wire(edge: Edge, fields: Fields): Promise<ReturnType<typeof readAnswers>> {
  return readAnswers(await exchange(edge.port, decisionBytes(fields, { isLast: true })))
}
