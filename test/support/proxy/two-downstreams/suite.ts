import { afterAll, beforeAll, expect, onTestFailed, test } from 'vitest'
import { seed } from '../../run/property-runs.ts'
import { timeByTurns } from '../../service/held-time.ts'
import { expectSame, expectSameResult } from './comparison.ts'
import { DownstreamPair } from './downstream-pair.ts'
import { randomTalk } from './random-talks.ts'
import { splitCorpus } from './split-corpus.ts'
import { oddTalk } from './talk.ts'

export interface TwoDownstreamsOptions {
  /** Of chance, at least. */
  readonly requests: number
  /** Talks at a time. */
  readonly lanes: number
  /** Every so many places of a request it is cut; 1: in every one. */
  readonly splitStep: number
  /** Of the requests that are cut, every so many; 1: all of them. */
  readonly corpusStep: number
}

/** Sends the same bytes to a proxy with its own wire and to one that reads through `node:http`, each before a backend that notes what comes. */
export function twoDownstreamsSuite({ requests: minRequests, lanes, splitStep, corpusStep }: TwoDownstreamsOptions): void {
  let pair: DownstreamPair
  beforeAll(async () => {
    pair = await DownstreamPair.start()
  })
  afterAll(() => pair.stop())

  // A client that half-closed, or fell silent, is given up after some time: it must be the same on both sides.
  timeByTurns()

  test('whatever comes, however cut: the same answers, the same requests at the backend, the same counts', {
    timeout: 900_000,
  }, async () => {
    const firstSeed = seed()
    let current = 0
    onTestFailed(() => void process.stderr.write(`\nreplay with EDGE_TEST_SEED=${current}\n`))
    const counted = new Set<string>()
    const unseen = (): string[] => EXPECTED_SERIES.filter((series) => ![...counted].some((name) => name.includes(series)))
    for (let requests = 0, batch = -FOUND_SEEDS.length; requests < minRequests; batch++) {
      current = FOUND_SEEDS.at(batch < 0 ? batch : FOUND_SEEDS.length) ?? firstSeed + batch * lanes
      const talks = Array.from({ length: lanes }, (_, lane) => randomTalk(current + lane))
      const { effects } = await expectSame(pair, talks)
      for (const series of Object.keys(effects.counts)) counted.add(series)
      requests += talks.reduce((sum, talk) => sum + talk.requests, 0)
    }
    // Or else the requests are too much alike. Some things are rare: a short run may lack them.
    if (minRequests >= MIN_FOR_ALL) expect(unseen()).toEqual([])
  })

  test('a request may be cut anywhere', { timeout: 900_000 }, async () => {
    let caller = 0
    const nextCaller = (): string => `split-${String(caller++).padStart(6, '0')}`
    const whole = splitCorpus(nextCaller())
    for (const [i, { length }] of whole.entries()) {
      if (i % corpusStep > 0) continue
      const request = (): string => splitCorpus(nextCaller())[i]!
      const talks = [oddTalk([request()]), oddTalk([...request()])]
      for (let at = 1 + (i % splitStep); at < length; at += splitStep) {
        const text = request()
        talks.push(oddTalk([text.slice(0, at), text.slice(at)]))
      }
      for (let first = 0; first < talks.length; first += lanes) {
        const { results } = await expectSame(pair, talks.slice(first, first + lanes))
        for (const result of results) expectSameResult(whole[i], result, results[0]!)
      }
    }
  })
}

/** Of talks that found differences which are mended. */
const FOUND_SEEDS = [348941137]

/** So many requests of chance bring everything. */
const MIN_FOR_ALL = 10_000

const EXPECTED_SERIES = [
  ...['allow', 'reject', 'refuse'].map((outcome) => `edge_questions_total{door="proxy",outcome="${outcome}"}`),
  ...['bad_request', 'repeated_descriptor'].map((reason) => `edge_refused_requests_total{reason="${reason}"}`),
  'edge_rejects_total{policy="blocked",',
  'reason="token_bucket_exceeded"',
  'reason="quota_exceeded"',
  'reason="tpd_exceeded"',
  ...['done', 'client_gone'].map((end) => `edge_llm_settlements_total{end="${end}"}`),
  'edge_llm_tokens_given_back_total{',
  'edge_cost_spent_total{',
  'edge_proxy_client_aborts_total',
]
