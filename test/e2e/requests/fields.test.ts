import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'

const UNTOUCHED_NAMES = ['__proto__', 'constructor', 'hasOwnProperty', 'toString', 'prototype', 'valueOf', '__defineGetter__']

describe.concurrent('1,100 header fields', () => {
  const crowd = Array.from({ length: 1100 }, (_, i) => [`X-F${i}`, 'v'] as const)

  test('with the limit key last: the rule applies', async (t) => {
    const edge = await oneKey(t, 'header:x-caller', 2)
    const fields = [...crowd, ['X-Caller', 'alice']] as const
    expect(await statuses(edge, original('/', ...fields), 4)).toEqual([200, 200, 429, 429])
    expect(await edge.metric('edge_descriptor_missing_total{key="header:x-caller"}')).toBe(0)
  })
})

describe.concurrent('names that objects are born with', () => {
  test.for(UNTOUCHED_NAMES)('header:%s is missing when it does not come, and counts when it does', async (name, t) => {
    const edge = await oneKey(t, `header:${name}`, 1)
    expect(await statuses(edge, original('/'), 3)).toEqual([200, 200, 200])
    expect(await edge.metric(`edge_descriptor_missing_total{key="header:${name.toLowerCase()}"}`)).toBe(3)
    expect(await statuses(edge, original('/', [name, 'a']), 2)).toEqual([200, 429])
    expect(await statuses(edge, original('/', [name, 'b']), 2)).toEqual([200, 429])
  })
})

describe.concurrent('header values', () => {
  test('are told apart byte by byte', async (t) => {
    const edge = await oneKey(t, 'header:x-caller', 1)
    for (const value of ['\xc3\xa9', '\xe9', '\xff', '\xfe', 'e', 'E', '"e"', 'e,', '\x80']) {
      expect({ value, statuses: await statuses(edge, original('/', ['X-Caller', value]), 2) }).toEqual({ value, statuses: [200, 429] })
    }
  })

  test('that are empty are missing', async (t) => {
    const edge = await oneKey(t, 'header:x-caller', 1)
    expect(await statuses(edge, original('/', ['X-Caller', '']), 3)).toEqual([200, 200, 200])
    expect(await edge.metric('edge_descriptor_missing_total{key="header:x-caller"}')).toBe(3)
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
