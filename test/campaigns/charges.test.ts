import { createServer, type IncomingMessage, type RequestListener, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { expect, onTestFailed, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { budgetRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { anyGeneration, BILLED_APIS, type Generation, oddStream, type StreamEvent } from '../support/llm/billed-generation.ts'
import { proxyEnv } from '../support/llm/llm-proxy.ts'
import { Random } from '../support/random/random.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { seed } from '../support/run/property-runs.ts'
import { PROXY_WIRES } from '../support/run/proxy-wire.ts'
import type { Edge } from '../support/service/edge.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { running, scratchDirectory, thisTest } from '../support/service/running.ts'
import { until } from '../support/until.ts'
import { expectSumsOf, usageLines } from '../support/usage/usage-proxy.ts'

/** Requests on each of three stores and two wires: 2,004 in all. */
const REQUESTS = 334
const AT_ONCE = 8

/** In units for a million tokens. Every request has the price of one of these, and each kind of token another one. */
const PRICES = {
  'plain-*': { input: 1.000001, cached_input: 0.099999, cache_write: 1.25, cache_write_1h: 2.000003, output: 3.111117 },
  'long-*': { input: 2.5, cached_input: 0.25, output: 15, above: { tokens: 1_000, input: 5, output: 22.5 }, per_request: 0.01 },
  '*': { input: 1_000, output: 1_000 },
}
const WEIGHTS = { cached_input: 0.1, cache_write: 1.25, output: 5 }
const GROWING = { reserve: { first: 100, step: 100 } }
const PLENTY = 900_000_000_000

const RULES = [
  llmRule('tokens', [], { tokens_per_day: PLENTY }),
  llmRule('weighted', [], { tokens_per_day: PLENTY, count: WEIGHTS }),
  llmRule('growing', [], { tokens_per_day: PLENTY, ...GROWING }),
  budgetRule('money', [], { budget: 9_000_000, prices: 'list' }),
  budgetRule('growing-money', [], { budget: 9_000_000, prices: 'list', ...GROWING }),
]

describeWithRedis('a backend that tells what it bills', () => {
  const cases = ([undefined, 'exact', 'leased'] as const).flatMap((store) => PROXY_WIRES.map((wire) => [store ?? 'memory', wire] as const))
  test.for(cases)(
    'is believed to the token and the billionth, whatever form its response has: counters in %s, wire %s',
    async ([store, wire]) => {
      const chance = seed()
      onTestFailed(() => void process.stderr.write(`\nreplay with EDGE_TEST_SEED=${chance}\n`))
      const redis =
        store === 'memory' ? {} : { EDGE_REDIS_URL: (await runningRedis()).url, EDGE_REDIS_MODE: store, EDGE_REDIS_TIMEOUT_MS: '60000' }
      const random = new Random(chance * 7 + cases.findIndex(([a, b]) => a === store && b === wire))
      const planned = new Map<string, PlannedResponse>()
      const port = await truthfulBackend(planned)
      const usageDir = join(await scratchDirectory(), 'usage')
      const edge = await running({
        bundle: { ...bundle(1, policy('llm', { rules: RULES })), prices: { list: PRICES } },
        env: { ...proxyEnv({ port }), ...ADMIN_ENV, ...redis, EDGE_PROXY_WIRE: wire, EDGE_USAGE_DIR: usageDir },
      })
      const generations = new Map<string, Generation>()
      let begun = 0
      const client = async (): Promise<void> => {
        while (begun < REQUESTS) {
          const model = `${random.oneOf(['plain', 'long'])}-${begun++}`
          const api = random.oneOf(Object.keys(BILLED_APIS))
          const generation = anyGeneration(random, model, BILLED_APIS[api]!)
          generations.set(model, generation)
          await askOnce(edge.port, random, planned, api, generation)
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, client))
      await expectCharges(edge, usageDir, generations)
    },
  )
})

/** Every line, every sum of the metrics and every counter says what the backend billed. */
async function expectCharges(edge: Edge, usageDir: string, generations: ReadonlyMap<string, Generation>): Promise<void> {
  await until(async () => (await usageLines(usageDir)).length >= REQUESTS)
  const lines = await usageLines(usageDir)
  const charged = lines.map(({ model, end, rules }) => [
    model,
    { end, ...Object.fromEntries(rules.map((rule) => [rule.rule, amountOf(rule)])) },
  ])
  const billed = [...generations].map(([model, generation]) => [model, { end: 'done', ...billOf(generation) }])
  expect(Object.fromEntries(charged)).toEqual(Object.fromEntries(billed))
  expect(lines).toHaveLength(REQUESTS)
  expectSumsOf(lines, await metricsOf(edge.adminPort))

  const sums = [...generations.values()].map(billOf)
  for (const rule of ['tokens', 'weighted', 'growing'] as const) {
    const { json } = await askAdmin(edge.adminPort, 'GET', `counters?policy=llm&rule=${rule}`)
    expect([rule, json.counters[0].level]).toEqual([rule, PLENTY - sums.reduce((sum, bill) => sum + bill[rule], 0)])
  }
}

function amountOf({ tokens, cost_nanos: cost }: { readonly tokens?: number; readonly cost_nanos?: number }): number {
  return cost ?? tokens!
}

/** What each rule has to charge, in tokens or billionths: computed in whole millionths of billionths, and rounded up once. */
function billOf(generation: Generation) {
  const { model, input, cached, written, output } = generation
  const plain = input - cached - written
  const weighted = Math.ceil((100 * plain + 10 * cached + 125 * written + 500 * output) / 100)
  const money = model.startsWith('plain') ? priced(generation, [1_000_001, 99_999, 1_250_000, 2_000_003, 3_111_117]) : longMoney(generation)
  return { tokens: input + output, weighted, growing: input + output, money, 'growing-money': money }
}

function longMoney(generation: Generation): number {
  const prices =
    generation.input > 1_000
      ? [5_000_000, 250_000, 5_000_000, 5_000_000, 22_500_000]
      : [2_500_000, 250_000, 2_500_000, 2_500_000, 15_000_000]
  return priced(generation, prices) + 10_000_000
}

/** Prices are in trillionths for one token. */
function priced({ input, cached, written, writtenForHour, output }: Generation, prices: readonly number[]): number {
  const kinds = [input - cached - written, cached, written - writtenForHour, writtenForHour, output]
  const trillionths = kinds.reduce((sum, tokens, index) => sum + BigInt(tokens) * BigInt(prices[index]!), 0n)
  return Number((trillionths + 999n) / 1000n)
}

interface PlannedResponse {
  readonly bytes: Buffer
  readonly fields: Readonly<Record<string, string>>
  readonly pieceBytes: number
}

/** Sends a request in any coding, after planning a response in any form. */
async function askOnce(
  port: number,
  random: Random,
  planned: Map<string, PlannedResponse>,
  name: string,
  generation: Generation,
): Promise<void> {
  const api = BILLED_APIS[name]!
  const { model } = generation
  const isStream = api.events !== undefined && random.below(2) === 0
  const texts = Array.from({ length: 1 + random.below(30) }, () =>
    random.oneOf(['The', ' edge', ' of\n\n', 'ein "Wort"', '東京', '😀', 'x'.repeat(200)]),
  )
  const plain = isStream ? eventBytes(random, eventsOf(random, name, generation, texts)) : wholeBytes(random, api.whole(generation))
  const [coding, bytes] = encoded(random, plain)
  const type = isStream ? random.oneOf(['text/event-stream; charset=utf-8', 'text/event-stream', 'text/plain']) : 'application/json'
  planned.set(model, {
    bytes,
    fields: { 'Content-Type': type, ...(coding && { 'Content-Encoding': coding }) },
    // A megabyte in pieces of a byte would take minutes.
    pieceBytes: bytes.length > 100_000 ? 16_000 + random.below(60_000) : random.oneOf([1 + random.below(7), 100, 1_460, bytes.length]),
  })
  const [requestCoding, body] = encoded(random, Buffer.from(JSON.stringify(api.body(model, isStream))))
  const headers = { 'Content-Type': 'application/json', 'X-Plan': model, ...(requestCoding && { 'Content-Encoding': requestCoding }) }
  const received = await new Promise<Buffer>((resolve, reject) => {
    const req = request({ port, host: '127.0.0.1', method: 'POST', path: api.path(model, isStream), headers, agent: false }, (res) => {
      if (res.statusCode === 200) buffer(res).then(resolve, reject)
      else buffer(res).then((error) => reject(new Error(`${res.statusCode} ${error}`)), reject)
    })
    req.on('error', reject)
    req.end(body)
  })
  if (!isStream) expect(received).toEqual(bytes)
}

function eventsOf(random: Random, name: string, generation: Generation, texts: readonly string[]): readonly StreamEvent[] {
  const events = BILLED_APIS[name]!.events!(generation, texts)
  return random.below(4) === 0 ? oddStream(random, name, events, generation) : events
}

/** Line ends, comments, ids and byte order marks that the format allows. */
function eventBytes(random: Random, events: readonly StreamEvent[]): Buffer {
  const end = random.oneOf(['\n', '\n', '\r\n', '\r'])
  const space = random.oneOf([' ', ''])
  const texts = events.map(({ name, data }) => {
    const odd = random.below(8) === 0 ? random.oneOf([`: comment${end}`, `id: 7${end}`, `retry: 10${end}`]) : ''
    const named = name === undefined ? '' : `event:${space}${name}${end}`
    return `${odd}${named}data:${space}${data === '[DONE]' ? data : JSON.stringify(data)}${end}${end}`
  })
  return Buffer.from((random.below(6) === 0 ? '\ufeff' : '') + texts.join(''))
}

function wholeBytes(random: Random, body: object): Buffer {
  return Buffer.from((random.below(6) === 0 ? '\ufeff' : '') + JSON.stringify(body, undefined, random.oneOf([0, 2])))
}

function encoded(random: Random, bytes: Buffer): readonly [coding: string | undefined, bytes: Buffer] {
  const coding = random.oneOf([undefined, undefined, 'gzip', 'x-gzip', 'deflate', 'br'])
  if (coding === undefined) return [undefined, bytes]
  return [coding, coding === 'br' ? brotliCompressSync(bytes) : coding === 'deflate' ? deflateSync(bytes) : gzipSync(bytes)]
}

/** Answers each request as it was planned under the name in its field `X-Plan`. Returns its port. */
async function truthfulBackend(planned: ReadonlyMap<string, PlannedResponse>): Promise<number> {
  const answer = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    await buffer(req)
    const { bytes, fields, pieceBytes } = planned.get(String(req.headers['x-plan']))!
    res.writeHead(200, fields)
    for (let from = 0; from < bytes.length; from += pieceBytes) {
      res.write(bytes.subarray(from, from + pieceBytes))
      await nextTurn()
    }
    res.end()
  }
  const server = createServer(answer as RequestListener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  thisTest.onTestFinished(() => {
    server.closeAllConnections()
    return new Promise<void>((resolve) => void server.close(() => resolve()))
  })
  return (server.address() as AddressInfo).port
}
