import { createHash } from 'node:crypto'
import { type IncomingMessage, request } from 'node:http'
import { beforeAll, describe, expect, test } from 'vitest'
import { bundle, llmRule, matching, policy } from '../bundles/bundles.ts'
import { CHAT } from '../llm/llm-proxy.ts'
import type { Edge } from '../service/edge.ts'
import { metric } from '../service/metrics.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { until } from '../until.ts'
import { KINDS, type Kind, patternOf } from './pattern.ts'
import { digestOf, PatternedBackend } from './patterned-backend.ts'
import { proxying, RawClient, valuesOf } from './proxy.ts'

/** More than what all the buffers of a connection hold: 10 MiB. */
const EVENTS = 10 * 1024
/** 64 KiB, as many times as fill them too. */
const SMALL_EVENTS = 64
const SMALL_RESPONSES = 160
const LONG_MS = 300_000
const BODY = JSON.stringify({ stream: true, messages: [{ role: 'user', content: 'hello' }] })

/** Clients that do not read, and backends that do not: each gets its own bytes, whoever else is served meanwhile. */
export function blockedClientsSuite(wire: string, clientsOfAKind: number): void {
  describe(`on the wire ${wire}`, () => {
    const owner = thisSuite()
    let [edge, backend]: [edge: Edge | undefined, backend: PatternedBackend | undefined] = [undefined, undefined]
    beforeAll(async () => {
      backend = await PatternedBackend.start(owner)
      const rule = (kind: Kind, streaming: object): object =>
        matching({ 'header:x-kind': kind }, llmRule(kind, [], { tokens_per_minute: 1e9, streaming }))
      const rules = [
        rule('filtered', { include_partial_usage: false }),
        rule('spliced', { include_partial_usage: true }),
        rule('compressed', { include_partial_usage: false }),
      ]
      const beside = matching({ 'header:x-kind': 'beside' }, llmRule('beside', [], { tokens_per_minute: 1e9 }))
      const policies = [policy('llm', { rules }), policy('shadow', { mode: 'shadow', rules: [beside] })]
      edge = await proxying(backend, { bundle: bundle(1, ...policies), env: { EDGE_PROXY_WIRE: wire } }, owner)
    })

    test(
      'clients that stop in the middle of 10 MB of any kind, while others read, get all of it and nothing else',
      async () => {
        const names = KINDS.flatMap((kind) => Array.from({ length: clientsOfAKind }, (_, i) => [kind, `${kind}-${i}`] as const))
        const stopped = names.map(([kind, name]) => new PatternedClient(edge!.port, kind, `stopped-${name}`, EVENTS))
        await Promise.all(stopped.map((client) => client.stops()))
        const others = names.map(([kind, name]) => new PatternedClient(edge!.port, kind, `reader-${name}`, EVENTS / 20))
        await Promise.all(others.map((client) => client.expectOwn()))
        // They were really in its way.
        expect(stopped.filter(({ name }) => !backend!.finished.has(name))).not.toEqual([])
        await Promise.all(stopped.map((client) => client.expectOwn()))
        await expectQuiet(edge!)
      },
      LONG_MS,
    )

    test(
      'a client that pipelines 64 KB responses and reads none of them gets each in its turn',
      async () => {
        const client = RawClient.connect(edge!.port)
        client.socket.pause()
        const names = Array.from({ length: SMALL_RESPONSES }, (_, i) => `small-${i}`)
        for (const name of names) client.send(requestText('counted', name, SMALL_EVENTS))
        const others = KINDS.map((kind) => new PatternedClient(edge!.port, kind, `beside-${kind}`, EVENTS / 20))
        await Promise.all(others.map((other) => other.expectOwn()))
        expect(backend!.finished.has(names.at(-1)!)).toBe(false)
        client.socket.resume()
        for (const name of names) {
          const response = await client.next()
          expect([valuesOf(response, 'Content-Length'), response.body === patternOf(name, SMALL_EVENTS)]).toEqual([['65536'], true])
        }
        client.socket.destroy()
        await expectQuiet(edge!)
      },
      LONG_MS,
    )

    test(
      'uploads to a backend that does not read arrive as they were sent when it does',
      async () => {
        backend!.isReading = false
        const names = Array.from({ length: clientsOfAKind * 2 }, (_, i) => `upload-${i}`)
        for (const [i, name] of names.entries()) upload(edge!.port, name, i % 2 === 0)
        const readers = KINDS.map((kind) => new PatternedClient(edge!.port, kind, `during-${kind}`, EVENTS / 20))
        await Promise.all(readers.map((reader) => reader.expectOwn()))
        // All are under way: how much of them waits in the system's buffers is for the system to say.
        await until(async () => (await metric(edge!.port, 'edge_proxy_open_requests')) === names.length)
        backend!.isReading = true
        await until(() => backend!.uploads.size === names.length)
        for (const name of names) {
          expect(backend!.uploads.get(name)).toBe(digestOf(createHash('sha256').update(patternOf(name, EVENTS))))
        }
        await expectQuiet(edge!)
      },
      LONG_MS,
    )
  })
}

async function expectQuiet(edge: Edge): Promise<void> {
  await until(async () => (await metric(edge.port, 'edge_proxy_open_requests')) === 0)
  expect(edge.log.filter(({ event }) => event === 'internal_error' || event === 'backend_failed')).toEqual([])
}

function upload(port: number, name: string, isChunked: boolean): void {
  const text = Buffer.from(patternOf(name, EVENTS))
  const size = isChunked ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': text.length }
  const headers = { 'X-Kind': 'upload', 'X-Client': name, ...size }
  const req = request({ host: '127.0.0.1', port, method: 'POST', path: '/', headers, agent: false }, (res) => res.resume())
  for (let from = 0; from < text.length; from += 100_000) req.write(text.subarray(from, from + 100_000))
  req.end()
}

function requestText(kind: Kind, name: string, events: number): string {
  return `GET / HTTP/1.1\r\nHost: a\r\nX-Kind: ${kind}\r\nX-Client: ${name}\r\nX-Events: ${events}\r\n\r\n`
}

/** A client that may stop reading, and knows what it must get. */
class PatternedClient {
  readonly name: string
  readonly #kind: Kind
  readonly #events: number
  readonly #response: Promise<IncomingMessage>

  constructor(port: number, kind: Kind, name: string, events: number) {
    this.name = name
    this.#kind = kind
    this.#events = events
    const headers = { 'X-Kind': kind, 'X-Client': name, 'X-Events': String(events), 'Content-Length': Buffer.byteLength(BODY) }
    this.#response = new Promise((resolve, reject) => {
      const req = request({ host: '127.0.0.1', port, method: 'POST', path: CHAT, headers, agent: false }, resolve)
      req.on('error', reject)
      req.end(BODY)
    })
  }

  /** Reads its first bytes and no more. */
  async stops(): Promise<void> {
    const response = await this.#response
    await new Promise((resolve) => response.once('readable', resolve))
  }

  async expectOwn(): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of await this.#response) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString('latin1')
    const own = this.#kind === 'spliced' ? withoutUsage(text) : text
    const expected = patternOf(this.name, this.#events)
    // Of texts of 10 MB a test should say no more than this.
    if (own !== expected) throw new Error(`${this.name} got something else: ${firstDifference(own, expected)}`)
  }
}

/** Takes the usage of every event out again, which must count them. */
function withoutUsage(text: string): string {
  let tokens = 0
  return text.replaceAll(/,"usage":\{"prompt_tokens":\d+,"completion_tokens":(\d+),"total_tokens":\d+\}/g, (_usage, completion: string) => {
    expect(Number(completion)).toBeGreaterThan(tokens)
    tokens = Number(completion)
    return ''
  })
}

function firstDifference(own: string, expected: string): string {
  let at = 0
  while (at < own.length && own[at] === expected[at]) at++
  return `${own.length} bytes instead of ${expected.length}; at ${at} ${JSON.stringify(own.slice(at, at + 80))} instead of ${JSON.stringify(expected.slice(at, at + 80))}`
}
