import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import type { Answer } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { debugFacts, logIn, SECRET_ENV } from './debug-login.ts'

/** Specification: Endpoints; what POST /v1/decision answers. */

const clock = new ManualClock()
let edge: Edge

beforeAll(async () => {
  const on = (path: string, burst: number, perSecond: number) =>
    policy(path, { selector: { pathPrefix: `/${path}` }, rules: [bucketRule('per-caller', ['header:x-caller'], burst, perSecond)] })
  edge = await Edge.start({ clock, env: SECRET_ENV, bundle: bundle(1, on('ten', 10, 0.4), on('once', 1, 0.4)) })
})

afterAll(() => edge.stop())

function ask(path: string, caller: string): Promise<Answer> {
  return edge.decide({ uri: path, fields: [['X-Caller', caller]] })
}

/** The answer to a caller who has used up the one request there was. */
async function rejected(caller: string): Promise<Answer> {
  expect((await ask('/once', caller)).status).toBe(200)
  return ask('/once', caller)
}

describe('200 allow', () => {
  test('[decision-11] RateLimit-Limit is the size of the limit', async () => {
    expect((await ask('/ten', 'ann')).headers['ratelimit-limit']).toBe('10')
  })

  test('[decision-12] RateLimit-Remaining is what is left of it after this request', async () => {
    const answers = [await ask('/ten', 'ben'), await ask('/ten', 'ben'), await ask('/ten', 'ben')]
    expect(answers.map(({ headers }) => headers['ratelimit-remaining'])).toEqual(['9', '8', '7'])
  })

  test('[decision-13] RateLimit-Reset is whole seconds until the limit is as good as new', async () => {
    // 2.5 s a token: 2.5 and 5
    const answers = [await ask('/ten', 'cora'), await ask('/ten', 'cora')]
    expect(answers.map(({ headers }) => headers['ratelimit-reset'])).toEqual(['3', '5'])
  })

  test('[decision-14] RateLimit says the same as one structured field: "<name>";r=<remaining>;t=<reset seconds>', async () => {
    expect((await ask('/ten', 'dan')).headers['ratelimit']).toBe('"ten";r=9;t=3')
  })

  test('[decision-15] the body is empty, and nothing says that there was an objection', async () => {
    const { status, body, headers } = await ask('/ten', 'eve')
    expect([status, body, headers['content-length']]).toEqual([200, '', '0'])
    expect([headers['retry-after'], headers['x-edge-reason']]).toEqual([undefined, undefined])
  })
})

describe('429 reject', () => {
  test('[decision-16] Retry-After is whole seconds, and whoever waits that long passes', async () => {
    const { status, headers } = await rejected('fay')
    expect([status, headers['retry-after']]).toEqual([429, '3'])
    clock.advance(2000)
    expect((await ask('/once', 'fay')).status).toBe(429)
    clock.advance(1000)
    expect((await ask('/once', 'fay')).status).toBe(200)
  })

  test('[decision-17] X-Edge-Reason is the reason code', async () => {
    expect((await rejected('gus')).headers['x-edge-reason']).toBe('token_bucket_exceeded')
  })

  test('[decision-18] RateLimit-Limit is there too', async () => {
    expect((await rejected('hal')).headers['ratelimit-limit']).toBe('1')
  })

  test('[decision-19] RateLimit-Remaining is 0, also while a part of a token is there', async () => {
    expect((await rejected('ida')).headers['ratelimit-remaining']).toBe('0')
    clock.advance(2000)
    expect((await ask('/once', 'ida')).headers['ratelimit-remaining']).toBe('0')
  })

  test('[decision-20] RateLimit-Reset is when this request would pass', async () => {
    const { headers } = await rejected('jan')
    expect(headers['ratelimit-reset']).toBe('3')
    clock.advance(2000)
    expect((await ask('/once', 'jan')).headers['ratelimit-reset']).toBe('1')
  })

  test('[decision-21] RateLimit has the same form as on allow', async () => {
    expect((await rejected('kay')).headers['ratelimit']).toBe('"once";r=0;t=3')
  })
})

describe('503 no bundle', () => {
  test('[decision-22] X-Edge-Reason is no_bundle_loaded, and no limit is claimed', async () => {
    const unready = await Edge.start()
    try {
      const { status, headers } = await unready.decide()
      expect([status, headers['x-edge-reason']]).toEqual([503, 'no_bundle_loaded'])
      expect(Object.keys(headers).filter((name) => name.startsWith('ratelimit'))).toEqual([])
    } finally {
      await unready.stop()
    }
  })
})

test('[decision-23] with an active debug session, allow and reject carry the debug headers as well', async () => {
  const { pair } = await logIn(edge)
  const asLea = {
    uri: '/once',
    fields: [
      ['X-Caller', 'lea'],
      ['Cookie', pair],
    ] as const,
  }
  const [allow, reject] = [await edge.decide(asLea), await edge.decide(asLea)]
  expect([allow.status, debugFacts(allow)['decision'], allow.headers['ratelimit']]).toEqual([200, 'allow', '"once";r=0;t=3'])
  expect([reject.status, debugFacts(reject)['decision'], reject.headers['retry-after']]).toEqual([429, 'reject', '3'])
})
