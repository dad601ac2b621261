import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { CALLER, lines, perCaller, start } from '../../support/service/limit-events.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'

describe('requests that cannot be decided', () => {
  test('are logged with status and reason, once a second and reason, with the number of those left out', async () => {
    const clock = new ManualClock()
    const edge = await start(clock, perCaller('p', 'enforce'))
    const refused = (): unknown[] =>
      edge.log.filter(({ event }) => event === 'refused').map(({ level, status, reason, unlogged }) => [level, status, reason, unlogged])
    for (let i = 0; i < 3; i++) await edge.post('/v1/decision')
    await edge.decide({ uri: '' })
    expect(refused()).toEqual([
      [40, 400, 'missing_original_method', 0],
      [40, 400, 'missing_original_uri', 0],
    ])
    clock.advance(1000)
    await edge.post('/v1/decision')
    expect(refused().at(-1)).toEqual([40, 400, 'missing_original_method', 2])
  })
})

describe('rejects', () => {
  test('are logged with policy, rule, reason, route and keys, once a second and rule, with the number of those left out', async () => {
    const clock = new ManualClock()
    const edge = await start(clock, perCaller('p', 'enforce'))
    await edge.decideTimes(6, CALLER)
    expect(lines(edge)).toEqual([
      {
        event: 'reject',
        policy: 'p',
        rule: 'per-caller',
        reason: 'token_bucket_exceeded',
        route: '/api',
        limit_keys: ['header:x-caller'],
        unlogged: 0,
        msg: 'request rejected',
      },
    ])
    clock.advance(999)
    await edge.decide(CALLER)
    expect(lines(edge)).toHaveLength(1)
    clock.advance(1)
    await edge.decide({ ...CALLER, fields: [['X-Caller', 'bob']] })
    await edge.decide(CALLER)
    expect(lines(edge)).toHaveLength(2)
    expect(lines(edge)[1]).toMatchObject({ event: 'reject', rule: 'per-caller', unlogged: 5 })
    clock.advance(1000)
    await edge.decideTimes(3, CALLER)
    expect(lines(edge)[2]).toMatchObject({ unlogged: 0 })
    expect(lines(edge)).toHaveLength(3)
  })

  test('allowed requests leave no line', async () => {
    const edge = await start(new ManualClock(), perCaller('p', 'enforce'))
    await edge.decide(CALLER)
    await edge.decide({ uri: '/elsewhere' })
    expect(lines(edge)).toEqual([])
  })
})

describe('would-rejects', () => {
  test('are logged the same way under their own name', async () => {
    const clock = new ManualClock()
    const edge = await start(clock, perCaller('p', 'shadow'))
    expect(await edge.decideTimes(5, CALLER)).toEqual(Array(5).fill(200))
    clock.advance(1000)
    await edge.decideTimes(2, CALLER)
    expect(lines(edge)).toMatchObject([
      {
        event: 'would_reject',
        policy: 'p',
        rule: 'per-caller',
        reason: 'token_bucket_exceeded',
        limit_keys: ['header:x-caller'],
        unlogged: 0,
      },
      { event: 'would_reject', unlogged: 3 },
    ])
  })
})

describe('the log of the program', () => {
  test('is one JSON object a line, each with time, level, event and message, from start to end', async () => {
    const path = join(await scratchDirectory(), 'bundle.json')
    await writeFile(path, JSON.stringify(bundle(1)))
    const cli = await serving({ EDGE_CONFIG_FILE: path, EDGE_WORKERS: '1' })
    expect(await cli.stop()).toBe(0)
    const entries = cli.stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    for (const entry of entries) {
      expect(entry).toMatchObject({
        level: expect.stringMatching(/^(info|warn|error)$/),
        event: expect.any(String),
        msg: expect.any(String),
      })
      expect(new Date(entry['time'] as string).toISOString()).toBe(entry['time'])
    }
    // A start that takes some seconds has a line more.
    const events = entries.map(({ event }) => event).filter((event) => event !== 'waiting_for_bundle')
    expect(events).toEqual(['bundle_applied', 'started', 'stopping', 'stopped'])
    expect(entries.find(({ event }) => event === 'started')).toMatchObject({
      port: cli.port,
      mode: 'decision_service',
      version: expect.any(String),
    })
  })
})
