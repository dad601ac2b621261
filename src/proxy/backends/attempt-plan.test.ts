import { describe, expect, test } from 'vitest'
import { BackendPool, type PoolRoute, poolRoute } from '../../../test/support/proxy/backend-pool.ts'
import type { AttemptOutcome, AttemptPlan } from './attempt-plan.ts'

const FRESH = { isUpgrade: false, hasAnswered: false, hasWholeBody: true }

type Plan = AttemptPlan<PoolRoute['group'][number]>

/** The name of the backend that the plan gives, with the model that replaces the client's, or its other answer. */
function next(plan: Plan): string | undefined {
  const choice = plan.next()
  if (typeof choice !== 'object') return choice
  return choice.model === undefined ? choice.backend.name : `${choice.backend.name}:${choice.model}`
}

/** One request a millisecond, each answered at once; how often each backend got one. */
function spread(
  pool: BackendPool,
  route: PoolRoute,
  count: number,
  options: Parameters<BackendPool['plan']>[1] = {},
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (let i = 0; i < count; i++) {
    pool.nowMs++
    const plan = pool.plan(route, { worker: i % pool.workers, ...options })
    const name = String(next(plan))
    counts[name] = (counts[name] ?? 0) + 1
    plan.answered(200)
  }
  return counts
}

/** Makes the backend cool, whatever routes it is in. */
function cool(pool: BackendPool, names: string, retryAfterMs = 60_000): void {
  for (const name of names.split(' ')) {
    for (let i = 0; i < 3; i++) pool.health().noteFailure(pool.attempt(name), '5xx', retryAfterMs)
  }
  pool.nowMs++
}

function coolModel(pool: BackendPool, names: string, retryAfterMs: number): void {
  for (const name of names.split(' ')) pool.health().noteFailure(pool.attempt(name), 429, retryAfterMs)
  pool.nowMs++
}

describe('the first call', () => {
  test('goes to the group by weight, and never to one of weight 0', () => {
    const pool = new BackendPool('a b c f')
    const counts = spread(pool, poolRoute('a*3 b c*0', 'f'), 4000)
    expect(Object.keys(counts).sort()).toEqual(['a', 'b'])
    expect(counts['a']! / 4000).toBeCloseTo(0.75, 1)
  })

  test('goes to those that do not cool, then to the fallback in its order', () => {
    const pool = new BackendPool('a b f g')
    const route = poolRoute('a b', 'f g')
    cool(pool, 'a')
    expect(spread(pool, route, 50)).toEqual({ b: 50 })
    cool(pool, 'b')
    expect(spread(pool, route, 50)).toEqual({ f: 50 })
    cool(pool, 'f')
    expect(spread(pool, route, 50)).toEqual({ g: 50 })
  })

  test('leaves a backend for the model that it refuses, and for no other', () => {
    const pool = new BackendPool('a b c')
    coolModel(pool, 'a', 60_000)
    expect(spread(pool, poolRoute('a b'), 50)).toEqual({ b: 50 })
    expect(Object.keys(spread(pool, poolRoute('a b'), 50, { model: 'other' })).sort()).toEqual(['a', 'b'])
    // The model that is sent counts, not the one that the client asked for.
    expect(spread(pool, poolRoute('a:other b*0', 'c'), 50)).toEqual({ 'a:other': 50 })
    expect(spread(pool, poolRoute('a:m b*0', 'c'), 50, { model: 'other' })).toEqual({ c: 50 })
  })

  test.each([['a'], ['a b*0']])('goes to the only backend of %j, however often it has failed', (group) => {
    const pool = new BackendPool('a b c')
    const route = poolRoute(group)
    cool(pool, 'a')
    coolModel(pool, 'a', 60_000)
    expect(spread(pool, route, 20)).toEqual({ a: 20 })
    for (let i = 0; i < 20; i++) {
      pool.nowMs++
      const plan = pool.plan(route)
      expect(next(plan)).toBe('a')
      if (i % 2 === 0) plan.failed('timeout')
      else plan.answered(429, 60_000)
    }
    expect([pool.coolsForMs('a'), pool.state('a').models]).toEqual([0, []])
  })

  test('takes no notice of an outage of the only backend, even if that has two models, one of which cools alone', () => {
    const pool = new BackendPool('a b')
    const route = poolRoute('a:x', 'a:y')
    cool(pool, 'a')
    expect([next(pool.plan(route)), next(pool.plan(route))]).toEqual(['a:x', 'a:x'])
    for (let i = 0; i < 5; i++) {
      const plan = pool.plan(route)
      next(plan)
      plan.answered(503, 60_000)
      pool.nowMs++
    }
    expect(next(pool.plan(route))).toBe('a:x')
    const refused = pool.plan(route)
    next(refused)
    refused.answered(429, 60_000)
    pool.nowMs++
    expect(next(pool.plan(route))).toBe('a:y')
  })

  test('leaves an only backend for its fallback', () => {
    const pool = new BackendPool('a f')
    for (let i = 0; i < 3; i++) {
      pool.nowMs++
      const plan = pool.plan(poolRoute('a', 'f'), { worker: i % 2 })
      expect(next(plan)).toBe('a')
      plan.failed('connect')
    }
    expect(spread(pool, poolRoute('a', 'f'), 20)).toEqual({ f: 20 })
  })
})

describe('another call', () => {
  test('goes to one that was not tried, then to the fallback, as often as the route says', () => {
    const pool = new BackendPool('a b f')
    for (let attempts = 0; attempts < 5; attempts++) {
      const plan = pool.plan(poolRoute('a b', 'f', { attempts }))
      const names = Array.from({ length: 6 }, () => {
        const name = next(plan)
        plan.abandon()
        return name
      })
      expect(names.slice(0, 2).sort()).toEqual((attempts === 0 ? [names[0], undefined] : ['a', 'b']).sort())
      expect(names.slice(2)).toEqual([attempts > 1 ? 'f' : undefined, undefined, undefined, undefined])
    }
  })

  test('does not go to the same backend again, unless with another model', () => {
    const pool = new BackendPool('a b')
    const route = poolRoute('a b*0', 'a a:m a:small b', { attempts: 9 })
    const plan = pool.plan(route)
    expect([next(plan), next(plan), next(plan), next(plan)]).toEqual(['a', 'a:small', 'b', undefined])
  })

  test('does not go to one that cools: the answer at hand is better than none', () => {
    const pool = new BackendPool('a b')
    cool(pool, 'b')
    const plan = pool.plan(poolRoute('a b', '', { attempts: 9 }))
    expect(next(plan)).toBe('a')
    plan.answered(429, 1000)
    expect(next(plan)).toBeUndefined()
  })

  test('does not go to the backend that the failure has just cooled, and its failures count in the fallback too', () => {
    const pool = new BackendPool('a b f')
    const route = poolRoute('a', 'f', { attempts: 9 })
    for (let i = 0; i < 3; i++) {
      pool.nowMs++
      const plan = pool.plan(route)
      expect(next(plan)).toBe('a')
      plan.answered(503)
      expect(next(plan)).toBe('f')
      plan.answered(503)
      expect(next(plan)).toBeUndefined()
    }
    expect([pool.coolsForMs('a'), pool.coolsForMs('f')]).toEqual([1000, 1000])
  })

  const outcomes: AttemptOutcome[] = ['connect', 'timeout', 429, 500, 502, 400, 200]

  test.each<[string, Partial<PoolRoute['retry']>, Partial<typeof FRESH>, AttemptOutcome[]]>([
    ['as the route says', {}, {}, ['connect', 'timeout', 429, 500, 502]],
    ['by default', { timeout: false, handles: () => false }, {}, ['connect']],
    ['if the route has only 429', { connect: false, timeout: false, handles: (status) => status === 429 }, {}, [429]],
    ['of an upgrade', {}, { isUpgrade: true }, []],
    ['after the first byte to the client', {}, { hasAnswered: true }, []],
    ['without the whole body in memory', {}, { hasWholeBody: false }, ['connect']],
  ])('%s', (_, retry, progress, expected) => {
    const plan = new BackendPool('a b').plan(poolRoute('a b', '', retry))
    expect(outcomes.filter((outcome) => plan.mayRetry(outcome, { ...FRESH, ...progress }))).toEqual(expected)
  })
})

describe('when all cool', () => {
  test('the nearest is tried, by one request at a time, and the others are told when', () => {
    const pool = new BackendPool('a b f')
    const route = poolRoute('a b', 'f')
    cool(pool, 'a', 60_000)
    cool(pool, 'b', 20_000)
    cool(pool, 'f', 40_000)
    const [probe, other] = [pool.plan(route, { worker: 0 }), pool.plan(route, { worker: 1 })]
    expect([next(probe), next(other)]).toEqual(['b', 'cooling'])
    expect(other.retryAfterMs).toBe(20_000 - 2)
    // A probe that fails makes room for the next, and its backend is no longer the nearest.
    probe.answered(503, 50_000)
    expect(next(other)).toBe('f')
    other.abandon()
    expect(next(pool.plan(route))).toBe('f')
  })

  test('only those that this request may go to count', () => {
    const pool = new BackendPool('a b c')
    cool(pool, 'a b', 60_000)
    cool(pool, 'c', 5000)
    const plans = [pool.plan(poolRoute('a b c*0')), pool.plan(poolRoute('a b c*0'))]
    expect(plans.map(next)).toEqual(['a', 'cooling'])
    expect(plans[1]!.retryAfterMs).toBeGreaterThan(50_000)
  })

  test.each<[string, (plan: Plan) => void]>([
    ['succeeds', (plan) => plan.answered(200)],
    ['is refused', (plan) => plan.answered(404)],
  ])('a probe that %s opens its backend to all', (_, end) => {
    const pool = new BackendPool('a b')
    cool(pool, 'a b')
    const probe = pool.plan(poolRoute('a b'))
    const name = next(probe)!
    end(probe)
    expect(spread(pool, poolRoute('a b'), 20)).toEqual({ [name]: 20 })
  })

  test.each<[string, (pool: BackendPool, plan: Plan) => void]>([
    ['has left its client', (_, plan) => plan.abandon()],
    ['was answered by a 5xx', (_, plan) => plan.answered(500)],
    ['got no answer', (_, plan) => plan.failed('timeout')],
    ['died with its worker', (pool) => pool.kill(0)],
  ])('a probe that %s makes room for the next', (_, end) => {
    const pool = new BackendPool('a b')
    cool(pool, 'a b')
    const [probe, blocked, later] = [
      pool.plan(poolRoute('a b')),
      pool.plan(poolRoute('a b'), { worker: 1 }),
      pool.plan(poolRoute('a b'), { worker: 1 }),
    ]
    expect([next(probe) === 'cooling', next(blocked)]).toEqual([false, 'cooling'])
    end(pool, probe)
    expect(next(later)).not.toBe('cooling')
  })

  test('a client who leaves is no failure of the backend, and no success', () => {
    const pool = new BackendPool('a b')
    for (let i = 0; i < 2; i++) pool.health().noteFailure(pool.attempt('a'), '5xx', undefined)
    for (let i = 0; i < 20; i++) {
      const plan = pool.plan(poolRoute('a b*0', 'b'))
      expect(next(plan)).toBe('a')
      plan.abandon()
    }
    expect(pool.state('a').failuresInARow).toBe(2)
  })

  test('what is said twice about a call counts once', () => {
    const pool = new BackendPool('a b')
    const plan = pool.plan(poolRoute('a b*0', 'b'))
    next(plan)
    for (let i = 0; i < 5; i++) plan.failed('connect')
    for (let i = 0; i < 5; i++) plan.answered(500)
    expect(pool.state('a').failuresInARow).toBe(1)
  })
})

describe('at the deadline', () => {
  test('one request goes to the backend until it has answered, and the others where they went', () => {
    const pool = new BackendPool('a b', 3)
    const route = poolRoute('a*1000 b')
    cool(pool, 'a', 60_000)
    expect(spread(pool, route, 100)).toEqual({ b: 100 })
    pool.nowMs += 60_000
    const herd = Array.from({ length: 300 }, (_, i) => pool.plan(route, { worker: i % 3 }))
    const names = herd.map(next)
    expect([names.filter((name) => name === 'a').length, names.filter((name) => name === 'b').length]).toEqual([1, 299])
    pool.nowMs++
    herd[names.indexOf('a')]!.answered(200)
    expect(spread(pool, route, 100)['a']).toBeGreaterThan(90)
  })

  test('one failure is enough to cool again, for longer', () => {
    const pool = new BackendPool('a b')
    const route = poolRoute('a*1000000 b')
    cool(pool, 'a', 1000)
    for (const seconds of [2, 4, 8, 16, 32, 60, 60]) {
      pool.nowMs += 61_000
      const plan = pool.plan(route)
      expect(next(plan)).toBe('a')
      plan.failed('timeout')
      expect(pool.coolsForMs('a')).toBe(seconds * 1000)
    }
  })

  test('of all, requests are held back while one tries, as long as the backends are not known to be up', () => {
    const pool = new BackendPool('a b')
    cool(pool, 'a b', 5000)
    pool.nowMs += 5000
    const herd = Array.from({ length: 50 }, (_, i) => pool.plan(poolRoute('a b'), { worker: i % 2 }))
    const names = herd.map(next)
    expect(names.slice(0, 2).sort()).toEqual(['a', 'b'])
    expect(new Set(names.slice(2))).toEqual(new Set(['cooling']))
    expect(herd.at(-1)!.retryAfterMs).toBe(1000)
  })

  test('of a model that only was refused, nobody is held back without another place to go', () => {
    const pool = new BackendPool('a b')
    coolModel(pool, 'a', 3000)
    pool.nowMs += 3000
    const beside = Array.from({ length: 20 }, () => next(pool.plan(poolRoute('a*1000000 b'))))
    expect(beside.filter((name) => name === 'a')).toHaveLength(1)
    coolModel(pool, 'b', 3000)
    pool.nowMs += 3000
    const herd = Array.from({ length: 20 }, () => next(pool.plan(poolRoute('a b'))))
    expect(herd).not.toContain('cooling')
  })
})

describe('requests that stick', () => {
  const keys = Array.from({ length: 2000 }, (_, i) => `user-${i}`)
  const homes = (pool: BackendPool, route: PoolRoute, worker = 0): (string | undefined)[] =>
    keys.map((stickTo) => next(pool.plan(route, { worker, stickTo })))

  test('go to one backend for each key, by weight, in every worker and process', () => {
    const route = poolRoute('a*3 b c*0')
    const [one, two] = [new BackendPool('a b c'), new BackendPool('c b a')]
    const at = homes(one, route)
    expect([homes(one, route, 1), homes(two, poolRoute('c*0 b a*3'))]).toEqual([at, at])
    expect(at.filter((name) => name === 'a').length / keys.length).toBeCloseTo(0.75, 1)
    expect(at).not.toContain('c')
  })

  test('move only if their backend cools, and come back to it', () => {
    const pool = new BackendPool('a b c')
    const route = poolRoute('a b c')
    const before = homes(pool, route)
    cool(pool, 'b', 60_000)
    const meanwhile = homes(pool, route)
    expect(meanwhile.filter((name, i) => name !== before[i])).toHaveLength(before.filter((name) => name === 'b').length)
    expect(new Set(meanwhile)).toEqual(new Set(['a', 'c']))
    pool.nowMs += 60_000
    pool.health().noteSuccess(pool.attempt('b'))
    expect(homes(pool, route)).toEqual(before)
  })

  test('try the same second backend after the first one', () => {
    const pool = new BackendPool('a b c')
    const route = poolRoute('a b c', '', { attempts: 2 })
    const orders = [0, 1].map((worker) =>
      keys.slice(0, 100).map((stickTo) => {
        const plan = pool.plan(route, { worker, stickTo })
        return [next(plan), next(plan), next(plan)].join()
      }),
    )
    expect(orders[0]).toEqual(orders[1])
    expect(new Set(orders[0]).size).toBe(6)
  })
})
