import { describe, expect, test } from 'vitest'
import { BackendPool } from '../../../test/support/proxy/backend-pool.ts'
import { type BackendAttempt, type BackendHealth, HEALTH } from './backend-health.ts'
import { MODEL_SLOTS } from './backend-slots.ts'

type Reason = Parameters<BackendHealth['noteFailure']>[1]

/** Calls that begin and fail one after the other, a millisecond each, by turns in both workers. */
function fail(pool: BackendPool, reason: Reason, count: number, retryAfterMs?: number, name = 'a'): void {
  for (let i = 0; i < count; i++) {
    const attempt = pool.attempt(name)
    pool.nowMs++
    pool.health(i % pool.workers).noteFailure(attempt, reason, retryAfterMs)
  }
}

function succeed(pool: BackendPool, model = 'm', name = 'a'): void {
  const attempt = pool.attempt(name, { model })
  pool.nowMs++
  pool.health(1).noteSuccess(attempt)
}

describe('a backend that does not answer', () => {
  test.each<Reason>(['connect', 'timeout', '5xx'])('cools after three times %s in a row, in whichever workers', (reason) => {
    const pool = new BackendPool('a b')
    fail(pool, reason, 2)
    expect(pool.coolsForMs('a')).toBe(0)
    fail(pool, reason, 1)
    expect([pool.coolsForMs('a', 'm', 0), pool.coolsForMs('a', 'other', 1), pool.coolsForMs('b')]).toEqual([1000, 1000, 0])
    expect(pool.state('a')).toMatchObject({ state: 'cooling', reason, failuresInARow: 3, coolingUntilMs: pool.nowMs + 1000 })
    expect(pool.state('b', 1)).toMatchObject({ state: 'healthy', reason: undefined, failuresInARow: 0, coolingUntilMs: undefined })
  })

  test.each<[string, (pool: BackendPool) => void]>([
    ['a success', succeed],
    ['a refusal', (pool) => fail(pool, 429, 1)],
    ['a refusal of a client’s own key', (pool) => fail(pool, 401, 1, undefined, 'open')],
  ])('begins a new row after %s', (_, answer) => {
    const name = _.includes('client') ? 'open' : 'a'
    const pool = new BackendPool('a open')
    fail(pool, '5xx', 2, undefined, name)
    answer(pool)
    fail(pool, '5xx', 2, undefined, name)
    expect(pool.coolsForMs(name, 'other')).toBe(0)
    fail(pool, '5xx', 1, undefined, name)
    expect(pool.coolsForMs(name, 'other')).toBe(1000)
  })

  test('cools twice as long after each further failure, up to a minute, and from one second again after a success', () => {
    const pool = new BackendPool('a')
    fail(pool, '5xx', 2)
    const seconds = Array.from({ length: 9 }, () => {
      fail(pool, '5xx', 1)
      const forMs = pool.coolsForMs('a')
      pool.nowMs += forMs
      return forMs / 1000
    })
    expect(seconds).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
    succeed(pool)
    expect(pool.state('a')).toMatchObject({ state: 'healthy', failuresInARow: 0, models: [] })
    fail(pool, '5xx', 3)
    expect(pool.coolsForMs('a')).toBe(1000)
  })

  test('is left alone for as long as any of its answers asked, at most ten minutes', () => {
    const pool = new BackendPool('a b')
    fail(pool, '5xx', 1, 30_000)
    fail(pool, '5xx', 2)
    expect(pool.coolsForMs('a')).toBe(30_000 - 2)
    fail(pool, '5xx', 3, 86_400_000, 'b')
    expect(pool.coolsForMs('b')).toBe(600_000)
  })

  test('does not cool longer because many calls fail together', () => {
    const pool = new BackendPool('a')
    const together = Array.from({ length: 100 }, () => pool.attempt('a'))
    pool.nowMs += 5000
    for (const attempt of together) pool.health(0).noteFailure(attempt, 'timeout', undefined)
    expect(pool.coolsForMs('a')).toBe(1000)
    pool.nowMs += 500
    pool.health(1).noteFailure(together[0]!, 'timeout', undefined)
    expect(pool.coolsForMs('a')).toBe(1000)
    pool.nowMs += 1000
    fail(pool, 'timeout', 1)
    expect(pool.coolsForMs('a')).toBe(2000)
  })

  test('keeps its deadline when a later failure asks for less, or an answer comes to a call that began before', () => {
    const pool = new BackendPool('a')
    const earlier = pool.attempt('a')
    fail(pool, '5xx', 3, 60_000)
    fail(pool, '5xx', 1, 1000)
    expect(pool.coolsForMs('a')).toBe(60_000 - 1)
    pool.health(1).noteSuccess(earlier)
    expect(pool.coolsForMs('a')).toBe(60_000 - 1)
    pool.nowMs += 60_000
    pool.health(1).noteSuccess(earlier)
    expect(pool.state('a').state).toBe('recovering')
  })

  test('does not cool where it is the only one, and its failures are seen all the same', () => {
    const pool = new BackendPool('a')
    for (let i = 0; i < 50; i++) pool.health().noteFailure(pool.attempt('a', { canCool: false }), 'connect', 60_000)
    pool.health().noteFailure(pool.attempt('a', { canCool: false }), 429, 60_000)
    expect([pool.coolsForMs('a'), pool.health(1).standing(pool.slot('a'), 'm')]).toEqual([0, 'open'])
    for (let i = 0; i < 50; i++) pool.health().noteFailure(pool.attempt('a', { canCool: false }), 'connect', undefined)
    expect(pool.state('a', 1)).toMatchObject({ state: 'healthy', failuresInARow: 50 })
  })
})

describe('a backend that refuses', () => {
  test.each<Reason>([429, 401, 402, 403])('%s cools the model at once, and no other', (reason) => {
    const pool = new BackendPool('a')
    fail(pool, reason, 1)
    expect([pool.coolsForMs('a', 'm', 1), pool.coolsForMs('a', 'other'), pool.coolsForMs('a', '')]).toEqual([1000, 0, 0])
    expect(pool.state('a')).toMatchObject({
      state: 'healthy',
      failuresInARow: 0,
      models: [{ model: 'm', state: 'cooling', reason, coolingUntilMs: pool.nowMs + 1000, isProbed: false }],
    })
  })

  test.each<Reason>([429, 401, 402, 403])('%s to a client’s own key takes the backend from nobody', (reason) => {
    const pool = new BackendPool('open')
    fail(pool, reason, 50, 60_000, 'open')
    expect([pool.coolsForMs('open'), pool.state('open')]).toMatchObject([0, { state: 'healthy', failuresInARow: 0, models: [] }])
  })

  test('cools the model for as long as it asks, then twice as long each time, until the model succeeds', () => {
    const pool = new BackendPool('a')
    fail(pool, 429, 1, 3000)
    expect(pool.coolsForMs('a')).toBe(3000)
    pool.nowMs += 3000
    fail(pool, 429, 1)
    expect(pool.coolsForMs('a')).toBe(2000)
    pool.nowMs += 2000
    succeed(pool, 'other')
    expect(pool.health().standing(pool.slot('a'), 'm')).toBe('model_recovering')
    succeed(pool)
    expect(pool.health().standing(pool.slot('a'), 'm')).toBe('open')
    fail(pool, 429, 1)
    expect(pool.coolsForMs('a')).toBe(1000)
  })

  test('a request without a model is told from one with an empty name, and long names from one another', () => {
    const pool = new BackendPool('a')
    const long = 'x'.repeat(100_000)
    pool.health().noteFailure(pool.attempt('a', { model: undefined }), 429, undefined)
    pool.health().noteFailure(pool.attempt('a', { model: long }), 429, undefined)
    const slot = pool.slot('a')
    const standings = [undefined, '', long, `${long}x`].map((model) => pool.health(1).standing(slot, model))
    expect(standings).toEqual(['cooling', 'open', 'cooling', 'open'])
    expect(pool.state('a').models.map(({ model }) => model)).toEqual(['', 'x'.repeat(64)])
  })

  test('a name is cut between characters', () => {
    const pool = new BackendPool('a')
    pool.health().noteFailure(pool.attempt('a', { model: `x${'€'.repeat(30)}` }), 429, undefined)
    expect(pool.state('a').models[0]!.model).toBe(`x${'€'.repeat(21)}`)
  })
})

describe('a flood of invented models', () => {
  const flood = (pool: BackendPool, count: number): void => {
    for (let i = 0; i < count; i++) {
      pool.nowMs++
      pool.health(i % 2).noteFailure(pool.attempt('a', { model: `made-up-${i}` }), 403, 600_000)
    }
  }

  test('neither grows nor takes the place of a model that has been answered', () => {
    const pool = new BackendPool('a')
    for (const worker of [0, 1]) pool.health(worker).noteSuccess(pool.attempt('a', { model: 'real' }))
    pool.nowMs++
    pool.health().noteFailure(pool.attempt('a', { model: 'real' }), 429, 600_000)
    flood(pool, 1000)
    expect(pool.coolsForMs('a', 'real')).toBe(600_000 - 1000)
    expect(pool.state('a').models).toHaveLength(MODEL_SLOTS)
    expect(pool.coolsForMs('a', 'healthy')).toBe(0)
  })

  test('keeps no model that has been answered from cooling', () => {
    const pool = new BackendPool('a')
    pool.health().noteSuccess(pool.attempt('a', { model: 'real' }))
    flood(pool, 1000)
    pool.health().noteFailure(pool.attempt('a', { model: 'real' }), 429, undefined)
    expect(pool.coolsForMs('a', 'real')).toBe(1000)
    flood(pool, 500)
    expect(pool.coolsForMs('a', 'real')).toBe(500)
  })

  test('makes no worker forget which models were answered', () => {
    const pool = new BackendPool('a')
    for (let i = 0; i < 1000; i++) pool.health().noteSuccess(pool.attempt('a', { model: `real-${i}` }))
    for (let i = 0; i < MODEL_SLOTS; i++) pool.health().noteFailure(pool.attempt('a', { model: `real-${999 - i}` }), 429, 600_000)
    pool.nowMs++
    flood(pool, 1000)
    expect(
      pool
        .state('a')
        .models.map(({ model }) => model)
        .filter((model) => model.startsWith('real')),
    ).toHaveLength(MODEL_SLOTS)
    pool.nowMs += 600_000
    flood(pool, 1)
    expect(pool.state('a').models.map(({ model }) => model)).toContain('made-up-0')
  })
})

describe('a probe', () => {
  const cooled = (): BackendPool => {
    const pool = new BackendPool('a b', 3)
    fail(pool, '5xx', 3)
    pool.nowMs += 1000
    return pool
  }

  test('is one at a time, in all workers together, until it has ended', () => {
    const pool = cooled()
    const [first, second] = [pool.attempt('a'), pool.attempt('a')]
    expect([pool.health(0).tryProbe(first), pool.health(1).tryProbe(second), pool.health(0).tryProbe(second)]).toEqual([true, false, false])
    expect(pool.state('a')).toMatchObject({ state: 'recovering', isProbed: true })
    pool.health(1).endProbe(second)
    expect(pool.health(1).tryProbe(second)).toBe(false)
    pool.health(0).endProbe(first)
    expect(pool.health(1).tryProbe(second)).toBe(true)
  })

  test('that a worker died with blocks nobody', () => {
    const pool = cooled()
    expect([pool.health(0).tryProbe(pool.attempt('a')), pool.health(1).tryProbe(pool.attempt('a'))]).toEqual([true, false])
    pool.kill(1)
    expect(pool.health(1).tryProbe(pool.attempt('a'))).toBe(false)
    pool.kill(0)
    expect([pool.health(1).tryProbe(pool.attempt('a')), pool.health(0).tryProbe(pool.attempt('a'))]).toEqual([true, false])
    expect(pool.state('a').failuresInARow).toBe(3)
  })

  test('of a model is freed in the same way, and holds up no other model', () => {
    const pool = new BackendPool('a')
    fail(pool, 429, 1)
    expect(pool.health(0).tryProbe(pool.attempt('a'))).toBe(true)
    expect([pool.health(1).tryProbe(pool.attempt('a')), pool.health(1).tryProbe(pool.attempt('a', { model: 'other' }))]).toEqual([
      false,
      true,
    ])
    pool.kill(0)
    expect(pool.health(1).tryProbe(pool.attempt('a'))).toBe(true)
  })

  test('that hangs lets another one try, ever more seldom', () => {
    const pool = cooled()
    const began: number[] = []
    const startMs = pool.nowMs
    for (; pool.nowMs < startMs + 300_000; pool.nowMs += 100) {
      if (pool.health(pool.nowMs % 3).tryProbe(pool.attempt('a'))) began.push((pool.nowMs - startMs) / 1000)
    }
    expect(began).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183, 243])
  })

  test('that waits for its client lets others try, whose number lengthens nothing, until it was sent', () => {
    const pool = cooled()
    const begin = (): BackendAttempt => {
      const attempt = pool.attempt('a')
      expect(pool.health(0).tryProbe(attempt)).toBe(true)
      pool.health(0).noteUpload(attempt, true)
      return attempt
    }
    const [first, last] = [begin(), begin()]
    pool.nowMs += 5000
    pool.health(0).noteUpload(last, false)
    pool.health(0).noteUpload(first, true)
    expect(pool.health(1).tryProbe(pool.attempt('a'))).toBe(false)
    pool.nowMs += 1000
    expect(pool.health(1).tryProbe(pool.attempt('a'))).toBe(true)
  })

  test('that was replaced ends nobody else’s', () => {
    const pool = cooled()
    const [slow, next] = [pool.attempt('a'), pool.attempt('a')]
    pool.health(0).tryProbe(slow)
    pool.nowMs += 1000
    expect(pool.health(0).tryProbe(next)).toBe(true)
    pool.health(0).endProbe(slow)
    expect(pool.health(1).tryProbe(pool.attempt('a'))).toBe(false)
  })

  test('that succeeds opens the backend for all, even before its deadline', () => {
    const pool = new BackendPool('a')
    fail(pool, '5xx', 3, 600_000)
    pool.nowMs++
    const probe = pool.attempt('a')
    pool.health(0).tryProbe(probe)
    pool.health(0).noteSuccess(probe)
    pool.health(0).endProbe(probe)
    expect([pool.coolsForMs('a'), pool.health(1).standing(pool.slot('a'), 'm')]).toEqual([0, 'open'])
  })
})

describe('a backend that an operator has tried at once', () => {
  test('takes one request at a time, in any worker, although its deadline has not passed', () => {
    const pool = new BackendPool('a b')
    fail(pool, '5xx', 3, 600_000)
    expect(pool.health(0).tryNow(pool.backend('a'))).toBe(true)
    expect([pool.coolsForMs('a', 'm', 1), pool.state('a', 1).state, pool.health(1).standing(pool.slot('a'), 'm')]).toEqual([
      0,
      'recovering',
      'recovering',
    ])
    pool.nowMs++
    const probe = pool.attempt('a')
    expect([pool.health(1).tryProbe(probe), pool.health(0).tryProbe(pool.attempt('a'))]).toEqual([true, false])
    // The wish of ten minutes counts no more: the next round is the second one.
    pool.nowMs++
    pool.health(1).noteFailure(probe, 'connect', undefined)
    expect(pool.coolsForMs('a')).toBe(2000)
    expect(pool.state('a')).toMatchObject({ failuresInARow: 4, lastFailure: { reason: 'connect', atMs: pool.nowMs } })
  })

  test('need not wait for a request that hangs in it', () => {
    const pool = new BackendPool('a')
    fail(pool, 'timeout', 3)
    expect(pool.health(0).tryProbe(pool.attempt('a'))).toBe(true)
    pool.health(0).tryNow(pool.backend('a'))
    expect(pool.health(1).tryProbe(pool.attempt('a'))).toBe(true)
  })

  test('is left as it is if nothing of it cools, or nobody knows it', () => {
    const pool = new BackendPool('a')
    fail(pool, '5xx', 2)
    expect([pool.health(0).tryNow(pool.backend('a')), pool.health(0).tryNow(pool.backend('z'))]).toEqual([false, false])
    expect(pool.state('a')).toMatchObject({ state: 'healthy', failuresInARow: 2 })
  })
})

test('what is known of a backend stays from bundle to bundle, and what comes late for an earlier one is not the next one’s', () => {
  const pool = new BackendPool('a b')
  const [late, lost] = [pool.attempt('a'), pool.attempt('b')]
  fail(pool, '5xx', 3, 600_000)
  pool.replace(['a', ...Array.from({ length: 63 }, (_, i) => `c${i}`)])
  expect(pool.coolsForMs('a')).toBe(600_000)
  pool.health().noteFailure(late, '5xx', undefined)
  for (let i = 0; i < 3; i++) pool.health().noteFailure(lost, '5xx', undefined)
  pool.health().noteSuccess(lost)
  expect([pool.health().tryProbe(lost), pool.health().standing(lost.slot, 'm'), pool.health().coolingUntil(lost.slot, 'm')]).toEqual([
    true,
    'open',
    0,
  ])
  const troubled = pool.names.filter((name) => pool.state(name).failuresInARow > 0)
  expect([troubled, pool.state('b').state]).toEqual([['a'], 'healthy'])
})

describe('what a call has changed', () => {
  const changesOf = (pool: BackendPool, reason: Reason | undefined, model = 'm'): number => {
    pool.nowMs++
    const attempt = pool.attempt('a', { model })
    pool.nowMs++
    return reason === undefined ? pool.health().noteSuccess(attempt) : pool.health(1).noteFailure(attempt, reason, 5000)
  }

  test('is said once when a backend begins to cool and once when it recovers, even by a refusal, which cools a model', () => {
    const pool = new BackendPool('a b')
    const outage = Array.from({ length: 5 }, () => changesOf(pool, '5xx'))
    expect(outage).toEqual([0, 0, HEALTH.cooled, 0, 0])
    expect(changesOf(pool, 429)).toBe(HEALTH.recovered | HEALTH.modelCooled)
    expect([changesOf(pool, 429), changesOf(pool, 429, 'other')]).toEqual([0, HEALTH.modelCooled])
    expect([changesOf(pool, undefined), changesOf(pool, undefined), changesOf(pool, undefined, 'other')]).toEqual([
      HEALTH.modelRecovered,
      0,
      HEALTH.modelRecovered,
    ])
  })
})

test('for an explanation, a backend is in the worse state of itself and the model, and a backend without another one in that of the model', () => {
  const pool = new BackendPool('a b')
  const stateFor = (model: string, isAlone = false) => {
    const { state, reason } = pool.health(1).stateFor(pool.backend('a'), model, isAlone)
    return [state, reason]
  }
  expect(stateFor('m')).toEqual(['healthy', undefined])
  fail(pool, 429, 1, 3000)
  expect([stateFor('m'), stateFor('other')]).toEqual([
    ['cooling', 429],
    ['healthy', undefined],
  ])
  fail(pool, 'connect', 3, 60_000)
  expect([stateFor('m'), stateFor('other'), stateFor('m', true), stateFor('other', true)]).toEqual([
    ['cooling', 'connect'],
    ['cooling', 'connect'],
    ['cooling', 429],
    ['healthy', undefined],
  ])
  pool.nowMs += 10_000
  expect([stateFor('m'), stateFor('m', true)]).toEqual([
    ['cooling', 'connect'],
    ['recovering', 429],
  ])
})
