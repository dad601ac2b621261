import { describe, expect, onTestFailed, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { CHAT, HELLO, HELLO_TOKENS } from '../support/llm/llm-proxy.ts'
import { WIRES } from '../support/proxy/routed.ts'
import { awayFromMidnight } from '../support/redis/away-from-midnight.ts'
import type { Fate } from '../support/routed/faulty-relay.ts'
import { missingPython, pythonClient } from '../support/routed/python-clients.ts'
import { RoutedStorm } from '../support/routed/routed-storm.ts'
import { priceOf, type RoutedWorld, routedWorld } from '../support/routed/routed-world.ts'
import { type Client, nodeClient } from '../support/routed/sdk-clients.ts'
import { seed } from '../support/run/property-runs.ts'
import { ask } from '../support/service/http.ts'

const PASS: Fate = { do: 'pass' }
/** What follows the last event of a stream. */
const STREAM_END = '\r\n0\r\n\r\n'
const [[, OWN_WIRE], [, NODE_HTTP]] = WIRES

describe('a backend that is reset after any number of bytes of its answer', () => {
  test.each([
    ['a whole answer', { isStream: false, env: OWN_WIRE }],
    ['a stream', { isStream: true, env: OWN_WIRE }],
    ['a whole answer, on node:http', { isStream: false, env: NODE_HTTP }],
  ])('%s: before the end of the head another backend is asked, after it none', async (_, { isStream, env }) => {
    await awayFromMidnight()
    let cut: Fate = PASS
    const world = await routedWorld({
      routes: [{ backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry: { on: ['connect', '5xx'], attempts: 1 } }],
      fateOf: ({ backend }) => (backend === 'a' ? cut : PASS),
      flags: ['--tokens', '2'],
      env,
    })
    const length = await lengthOfAnswer(world, isStream)
    let charged = 1
    let broken = 0
    for (let afterBytes = 0; afterBytes <= length; afterBytes++) {
      cut = { do: 'cut', afterBytes }
      const marker = `cut-${afterBytes}`
      const answer = await askFor(world, marker, isStream).catch(() => undefined)
      const attempts = world.attemptsOf(marker)
      const isHeadWhole = attempts[0]!.status === 200
      expect(attempts.map(({ backend }) => backend)).toEqual(isHeadWhole ? ['a'] : ['a', 'b'])
      for (const { body } of attempts) expect(body.equals(attempts[0]!.body)).toBe(true)
      expect(answer?.status).toBe(isHeadWhole && afterBytes < length ? undefined : 200)
      // A stream whose last event has arrived is charged, even if the end of its last chunk is missing.
      if (answer !== undefined || (isStream && afterBytes >= length - STREAM_END.length)) charged++
      else if (isHeadWhole) broken++
      // Three failures in a row would let the backend cool.
      cut = PASS
      if (afterBytes % 2 === 1) {
        expect((await askFor(world, `good-${afterBytes}`, isStream)).status).toBe(200)
        charged++
      }
    }
    await world.untilQuiet()
    const [metrics, { tokens, money }] = [await world.metrics(), await world.charged('whole')]
    expect(tokens).toBe(HELLO_TOKENS + 2)
    expect(money).toBeCloseTo(priceOf('m', HELLO_TOKENS, 2), 5)
    // One that breaks off costs what has passed, which is more than nothing and no more than all.
    const [used, spent] = [metrics.sum('edge_llm_tokens_used_total'), metrics.sum('edge_cost_spent_total')]
    expect(used).toBeGreaterThan(charged * tokens)
    expect(used).toBeLessThanOrEqual((charged + broken) * tokens)
    expect(spent).toBeGreaterThan(charged * money)
    expect(spent).toBeLessThanOrEqual((charged + broken) * money + 1e-5)
    world.expectWell()
  })
})

describe('a storm over three backends', () => {
  test('clients in Node', () => survivesStorm(nodeClient))
})

describeWith(missingPython, 'a storm over three backends, as Python sees it', () => {
  test('clients in Python', () => survivesStorm(pythonClient))
})

/** Each request, however many attempts it took, is one decision, one charge, one line of the log and one answer. */
async function survivesStorm(clientOf: (port: number) => Client): Promise<void> {
  await awayFromMidnight()
  const chance = seed()
  onTestFailed(() => void process.stderr.write(`\nreplay with EDGE_TEST_SEED=${chance}\n`))
  const storm = await RoutedStorm.begin(clientOf, 160, chance)
  await storm.play()
  await storm.playCalm(24)
  await storm.check()
}

function askFor(world: RoutedWorld, marker: string, isStream: boolean): ReturnType<typeof ask> {
  const body = JSON.stringify({ model: 'm', stream: isStream, max_tokens: 2, messages: HELLO })
  return ask(world.port, 'POST', CHAT, [['X-Marker', marker]], body)
}

async function lengthOfAnswer(world: RoutedWorld, isStream: boolean): Promise<number> {
  expect((await askFor(world, 'whole', isStream)).status).toBe(200)
  return world.attemptsOf('whole')[0]!.answerBytes
}
