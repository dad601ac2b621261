import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, concurrencyRule, policy, windowRule } from '../../../test/support/bundles/bundles.ts'
import { BLOCK, override, planOf, ruleOf, setOverrides, UNLIMITED } from '../../../test/support/overrides/overridden-engine.ts'
import { WaitingWorld } from '../../../test/support/proxy/waiting-world.ts'

const KEY = 'header:x-k'
const ALICE = { 'x-k': 'alice' }
const BOB = { 'x-k': 'bob' }

const waiting = (rule: object, seconds = 5): object => ({ ...rule, wait_seconds: seconds })
/** One at once, and one a second. */
const BUCKET = waiting(bucketRule('r', [KEY], 1))
const p = (...rules: object[]) => policy('p', { rules })

/** The endings so far, and when they came. */
const endings = (world: WaitingWorld) =>
  world.requests.map(({ ending, endedMs, cameMs }) => (ending === undefined ? 'waits' : `${ending} after ${endedMs - cameMs}`))

describe('a request that only rules with wait_seconds reject', () => {
  test('waits until it would pass, and passes in the order in which it came', () => {
    const world = new WaitingWorld([p(BUCKET)])
    for (let i = 0; i < 4; i++) world.ask(ALICE)
    expect(endings(world)).toEqual(['allowed after 0', 'waits', 'waits', 'waits'])
    world.pass(3000)
    expect(endings(world)).toEqual(['allowed after 0', 'allowed after 1000', 'allowed after 2000', 'allowed after 3000'])
    expect(world.room.isEmpty).toBe(true)
  })

  test('is rejected at once if it would not pass in time, counting those ahead of it', () => {
    const world = new WaitingWorld([p(BUCKET)])
    for (let i = 0; i < 7; i++) world.ask(ALICE)
    expect(endings(world).slice(-2)).toEqual(['waits', 'rejected after 0'])
    expect(world.requests.at(-1)!.decision).toMatchObject({ reason: 'token_bucket_exceeded', limit: { resetMs: 6000 } })
    expect(world.reported).toBe(1)
  })

  test('is rejected at once if another rule without wait_seconds rejects it too', () => {
    const world = new WaitingWorld([p(BUCKET, bucketRule('other', [KEY], 1, 0.5))])
    world.ask(ALICE)
    world.ask(ALICE)
    expect(endings(world)).toEqual(['allowed after 0', 'rejected after 0'])
  })

  test('is rejected at once if it costs more than the limit can ever hold', () => {
    const rule = { ...BUCKET, algorithm_config: { tokens_per_second: 1, burst: 1, cost: 2 } }
    const world = new WaitingWorld([p(rule)])
    world.ask(ALICE)
    expect(endings(world)).toEqual(['rejected after 0'])
  })

  test('waits no longer than the shortest wait_seconds of the rules that reject it', () => {
    const world = new WaitingWorld([p(BUCKET, waiting(bucketRule('other', [KEY], 1, 0.5), 1))])
    world.ask(ALICE)
    world.ask(ALICE)
    expect(endings(world)).toEqual(['allowed after 0', 'rejected after 0'])
  })

  test('waits for the end of a window that is near, and not for one that is far', () => {
    const world = new WaitingWorld([p(waiting(windowRule('r', [KEY], { limit: 1, period: '1m' })))])
    world.ask(ALICE)
    world.ask(ALICE)
    world.pass(56_000)
    world.ask(ALICE)
    world.pass(4000)
    expect(endings(world)).toEqual(['allowed after 0', 'rejected after 0', 'allowed after 4000'])
  })

  test('looks every 50 ms whether a request in flight has ended, and is rejected in the end', () => {
    const world = new WaitingWorld([p(waiting(concurrencyRule('r', [KEY], 1), 2))])
    const first = world.ask(ALICE)
    for (let i = 0; i < 2; i++) world.ask(ALICE)
    world.pass(1010)
    first.finish()
    world.pass(1000)
    expect(endings(world)).toEqual(['allowed after 0', 'allowed after 1050', 'rejected after 2000'])
  })

  test('is served with all others for whom there is a place by then, at the same look', () => {
    const world = new WaitingWorld([p(waiting(concurrencyRule('r', [KEY], 10), 2))])
    const first = Array.from({ length: 10 }, () => world.ask(ALICE))
    for (let i = 0; i < 20; i++) world.ask(ALICE)
    world.pass(110)
    for (const request of first.slice(0, 7)) request.finish()
    world.pass(40)
    expect(endings(world).slice(10)).toEqual([...Array(7).fill('allowed after 150'), ...Array(13).fill('waits')])
    for (const request of first.slice(7)) request.finish()
    world.pass(50)
    expect(endings(world).slice(17, 21)).toEqual([...Array(3).fill('allowed after 200'), 'waits'])
  })

  test('is reported once, whatever number of decisions it took', () => {
    const world = new WaitingWorld([p(waiting(concurrencyRule('r', [KEY], 1), 2))])
    world.ask(ALICE)
    world.ask(ALICE)
    world.pass(1999)
    expect(world.reported).toBe(0)
    world.pass(1)
    expect(world.reported).toBe(1)
  })

  test('does not wait for others whose counter it does not need', () => {
    const world = new WaitingWorld([p(BUCKET)])
    for (const who of [ALICE, ALICE, BOB, BOB]) world.ask(who)
    world.pass(1000)
    expect(endings(world)).toEqual(['allowed after 0', 'allowed after 1000', 'allowed after 0', 'allowed after 1000'])
  })

  test('passes at once if enough is left after those ahead of it', () => {
    const rule = { ...BUCKET, algorithm_config: { tokens_per_second: 1, burst: 10, cost: { header: 'x-cost' } } }
    const world = new WaitingWorld([p(rule, waiting(bucketRule('other', ['header:x-o'], 1)))])
    world.ask({ ...ALICE, 'x-o': '1' })
    world.ask({ ...ALICE, 'x-o': '1' })
    // The one that waits does so for the other rule, and needs one of the nine that are left here.
    world.ask({ ...ALICE, 'x-cost': '8' })
    expect(endings(world)).toEqual(['allowed after 0', 'waits', 'allowed after 0'])
  })

  test('is not overtaken by one that needs less', () => {
    const rule = { ...BUCKET, algorithm_config: { tokens_per_second: 1, burst: 3, cost: { header: 'x-cost' } } }
    const world = new WaitingWorld([p(rule)])
    world.ask({ ...ALICE, 'x-cost': '3' })
    world.ask({ ...ALICE, 'x-cost': '3' })
    world.pass(1500)
    world.ask({ ...ALICE, 'x-cost': '1' })
    world.pass(5000)
    expect(endings(world)).toEqual(['allowed after 0', 'allowed after 3000', 'allowed after 2500'])
  })

  test('moves up when one ahead of it leaves', () => {
    const world = new WaitingWorld([p(BUCKET)])
    for (let i = 0; i < 3; i++) world.ask(ALICE)
    world.pass(500)
    world.requests[1]!.leave()
    world.pass(500)
    expect(endings(world)).toEqual(['allowed after 0', 'gone after 500', 'allowed after 1000'])
  })

  test('lets those behind it go on while its body is read, and returns to its place', () => {
    const world = new WaitingWorld([p(BUCKET)])
    world.ask(ALICE)
    const reader = world.room.open({ sender: { address: 'a', isClient: true }, bodyBytes: 0, decideAgain: () => {} })
    const needs = world.room.open({ sender: { address: 'b', isClient: true }, bodyBytes: 0, decideAgain: () => {} })
    const line = 'line'
    const wait = {
      rule: planOf(p(BUCKET)).policies[0]!.rules[0]!,
      caller: 'c',
      needs: [{ line, cost: 1 }],
      lookMs: 9,
      slackMs: 99,
      maxMs: 99,
    }
    expect([reader.admit({ ...wait, isOpenEnded: false }), needs.admit({ ...wait, isOpenEnded: false })]).toEqual([true, true])
    expect(needs.aheadIn(line)).toBe(1)
    reader.stepAside()
    expect([needs.aheadIn(line), reader.aheadIn(line)]).toEqual([0, 0])
    reader.admit({ ...wait, isOpenEnded: false })
    expect([needs.aheadIn(line), reader.aheadIn(line)]).toEqual([1, 0])
  })
})

describe('while requests wait', () => {
  test('another bundle decides them: a limit that is gone lets them pass within a second', () => {
    const world = new WaitingWorld([p(waiting(bucketRule('r', [KEY], 1, 0.1), 30))])
    world.ask(ALICE)
    world.ask(ALICE)
    world.engine.activate(planOf(policy('p', { rules: [bucketRule('new', [KEY], 1)] })))
    world.pass(1000)
    expect(endings(world)).toEqual(['allowed after 0', 'allowed after 1000'])
  })

  test('a block that comes into force rejects them', () => {
    const world = new WaitingWorld([p(waiting(bucketRule('r', [KEY], 1, 0.1), 30))])
    world.ask(ALICE)
    world.ask(ALICE)
    world.engine.activate(planOf(policy('p', { rules: [blockRule('b', { [KEY]: 'alice' })] })))
    world.pass(1000)
    expect(world.requests[1]!.decision).toMatchObject({ action: 'reject', reason: 'blocked' })
  })

  test.each([
    ['that blocks rejects', BLOCK, 'rejected after 1000'],
    ['that lifts the limit lets pass', UNLIMITED, 'allowed after 1000'],
  ])('an override %s the first of each line within a second', (_, change, ending) => {
    const world = new WaitingWorld([p(waiting(bucketRule('r', [KEY], 1, 0.1), 30))])
    world.ask(ALICE)
    world.ask(ALICE)
    setOverrides(world.engine, [override(ruleOf({ [KEY]: 'alice' }), change, world.clock)])
    world.pass(1000)
    expect(endings(world)[1]).toBe(ending)
  })

  test('draining ends all waits at once, and nobody waits any more', () => {
    const world = new WaitingWorld([p(BUCKET)])
    for (let i = 0; i < 5; i++) world.ask(ALICE)
    world.pass(100)
    world.room.close()
    world.pass(0)
    expect(endings(world)).toEqual(['allowed after 0', ...Array(4).fill('rejected after 100')])
    world.ask(ALICE)
    expect([endings(world).at(-1), world.room.isEmpty]).toEqual(['rejected after 0', true])
  })
})

describe('places', () => {
  const SLOW = waiting(concurrencyRule('r', [KEY], 1), 60)

  test('are 100 for one caller', () => {
    const world = new WaitingWorld([p(SLOW)])
    for (let i = 0; i < 102; i++) world.ask(ALICE, `192.0.2.${i}`)
    expect([world.requests.filter(({ isWaiting }) => isWaiting).length, endings(world).at(-1)]).toEqual([100, 'rejected after 0'])
    // The place of one that leaves is free for the next.
    world.requests[50]!.leave()
    expect(world.ask(ALICE).isWaiting).toBe(true)
  })

  test('are 200 for one address, whatever values it makes up', () => {
    const world = new WaitingWorld([p(SLOW)])
    for (let i = 0; i < 202; i++) for (let twice = 0; twice < 2; twice++) world.ask({ 'x-k': `made-up-${i}` })
    expect(world.requests.filter(({ isWaiting }) => isWaiting).length).toBe(200)
  })

  test('are counted by address where a rule does not tell callers apart', () => {
    const world = new WaitingWorld([p(waiting(concurrencyRule('r', [], 1), 60))])
    for (let i = 0; i < 102; i++) world.ask({}, '192.0.2.1')
    for (let i = 0; i < 5; i++) world.ask({}, '192.0.2.2')
    expect(world.requests.filter(({ isWaiting }) => isWaiting).length).toBe(105)
  })

  test('are as many in a worker as the setting says', () => {
    const world = new WaitingWorld([p(SLOW)], 3)
    for (let i = 0; i < 5; i++) for (let twice = 0; twice < 2; twice++) world.ask({ 'x-k': `${i}` }, `192.0.2.${i}`)
    expect(world.requests.filter(({ isWaiting }) => isWaiting).length).toBe(3)
  })

  test('with a body are there while its memory is', () => {
    const world = new WaitingWorld([p(SLOW)])
    world.maxBodyBytes = 100
    for (const bytes of [0, 60, 60, 40]) world.ask(ALICE, '192.0.2.1', bytes)
    expect(endings(world)).toEqual(['allowed after 0', 'waits', 'rejected after 0', 'waits'])
    world.requests[1]!.leave()
    expect(world.ask(ALICE, '192.0.2.1', 60).isWaiting).toBe(true)
    world.pass(60_000)
    expect([world.bodyBytes, world.room.isEmpty]).toEqual([0, true])
  })
})
