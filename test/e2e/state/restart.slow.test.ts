import { readFile, stat } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/time/clock.ts'
import { bucketRule, bundle, jwt, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric } from '../../support/service/metrics.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { BURST, HARDLY_ANY, KeptCounters, saves, take } from '../../support/state/kept-counters.ts'
import { readGood } from '../../support/state/state.ts'
import { until } from '../../support/until.ts'

const DAY_TOKENS = 1000

describe.concurrent('counters go on after a restart', () => {
  test('under a limit that was changed meanwhile, and changes again', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.run()
    await take(first, 60)
    await first.stop()

    await kept.publish(perCaller(2, 2 * BURST))
    const second = await kept.run()
    expect(await take(second)).toBe(39)
    await kept.publish(perCaller(3, 25))
    await until(() => second.logged('bundle_applied').length === 2)
    expect(await take(second)).toBe(24)
    await second.stop()

    await kept.publish(perCaller(4, BURST))
    const third = await kept.run()
    expect(await take(third)).toBe(23)
  })

  test('but full ones are not in the file', async (t) => {
    const rules = [bucketRule('slow', ['header:x-caller'], BURST, HARDLY_ANY), bucketRule('fast', ['header:x-fast'], BURST, 1e6)]
    const kept = await KeptCounters.of(t, bundle(1, policy('p', { rules })))
    const first = await kept.run()
    for (let i = 0; i < 20; i++) await take(first, 1, `fast-${i}`, 'X-Fast')
    for (let i = 0; i < 4; i++) await take(first, 1, `slow-${i}`)
    expect(await metric(first.port, 'edge_store_occupied_slots')).toBe(24)
    await first.stop()
    expect((await readGood(kept.statePath, systemClock)).counters).toBe(4)

    const second = await kept.run()
    expect(await untilLogged(second, 'state_loaded')).toMatchObject([{ counters: 4 }])
    const sinceS = Math.floor(Date.now() / 1000)
    await until(async () => (await saves(second)) > 0)
    expect(await metric(second.port, 'edge_state_last_save_counters')).toBe(4)
    const savedAtS = await metric(second.port, 'edge_state_last_save_timestamp_seconds')
    expect(savedAtS).toBeGreaterThanOrEqual(sinceS)
    expect(savedAtS).toBeLessThanOrEqual(Date.now() / 1000)
  })

  test('and the file says nothing about who called, to nobody but its owner', async (t) => {
    const rules = [
      bucketRule('key', ['header:x-api-key'], BURST, HARDLY_ANY),
      bucketRule('claim', ['jwt:sub'], BURST, HARDLY_ANY),
      bucketRule('caller', ['header:x-caller'], BURST, HARDLY_ANY),
    ]
    const kept = await KeptCounters.of(t, bundle(1, policy('p', { rules })))
    const cli = await kept.run({ EDGE_DEBUG_SESSION_SECRET: 'debug-session-secret' })
    await take(cli, 1, 'sk-live-0123456789abcdef', 'X-Api-Key')
    await take(cli, 1, `Bearer ${jwt({ sub: 'alice@example.com' })}`, 'Authorization')
    await take(cli, 1, 'a-caller-by-name')
    await cli.stop()

    const file = (await readFile(kept.statePath)).toString('latin1')
    expect(file.slice(0, 8)).toBe('EDGSTATE')
    for (const secret of ['sk-live', '0123456789abcdef', 'alice', 'example', 'a-caller', 'x-api-key', 'debug-session', 'Bearer']) {
      expect(file).not.toContain(secret)
    }
    expect((await stat(kept.statePath)).mode & 0o777).toBe(0o600)
  })
})

test('what a proxied call used of its daily budget stays used, and what it gave back stays given back', async (t) => {
  const backend = await fakeLlm({ tokens: 7 })
  const rule = llmRule('day', ['header:x-team'], { tokens_per_day: DAY_TOKENS, max_completion_tokens: 500 })
  const kept = await KeptCounters.of(t, bundle(1, policy('p', { rules: [rule] })))
  const clock = new ManualClock()
  const first = await kept.run(proxyEnv(backend), clock)
  await chat(first)
  // The reservation is larger than what was used: settled, or the second would not have fit
  expect(await chat(first)).toBe(DAY_TOKENS - (HELLO_TOKENS + 7) - (HELLO_TOKENS + 500))
  await first.stop()

  const second = await kept.run(proxyEnv(backend), clock)
  expect(await chat(second)).toBe(DAY_TOKENS - 2 * (HELLO_TOKENS + 7) - (HELLO_TOKENS + 500))
})

function perCaller(version: number, burst: number): object {
  return bundle(version, policy('p', { rules: [bucketRule('r', ['header:x-caller'], burst, HARDLY_ANY)] }))
}

/** Returns what is left while the call's reservation is taken. */
async function chat({ port }: Edge): Promise<number> {
  const { status, headers } = await ask(port, 'POST', CHAT, [['X-Team', 'a']], JSON.stringify({ messages: HELLO }))
  expect(status).toBe(200)
  await until(async () => (await metric(port, 'edge_proxy_open_requests')) === 0)
  return Number(headers['ratelimit-remaining'])
}
