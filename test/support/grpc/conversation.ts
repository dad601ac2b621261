import * as type from '../../../src/doors/grpc/http2/frame-reader.ts'
import type { Random } from '../random/random.ts'
import { ECHO, ECHO_LATER, FAIL } from './echo-methods.ts'
import { type Field, FieldSpeller } from './field-speller.ts'
import { callFields, frame, hello, number, ping, reset, windowUpdate } from './frames.ts'
import { prefixed } from './grpc-client.ts'

/** What a client sends on one connection, and the streams whose results it will look at. */
export interface Conversation {
  readonly chunks: readonly Buffer[]
  readonly streamIds: readonly number[]
}

const MAX_STREAMS = 8
const INITIAL_WINDOW = 4
/** To a length that is not as announced, `node:http2` answers with GOAWAY from Node 22 on, as RFC 9113 5.4.1 allows; our own layer resets the stream. */
const LATE_FLAWS = Number.parseInt(process.versions.node, 10) < 22 ? (['length', 'trailers'] as const) : (['trailers'] as const)

/** Calls of all kinds, good and bad, interleaved, spelled in any way, cut anywhere. */
export function conversationOf(random: Random): Conversation {
  const writer = new ConversationWriter(random)
  const count = 1 + random.below(MAX_STREAMS)
  const streams = Array.from({ length: count }, (_, i) => writer.stream(2 * i + 1))
  const frames: Buffer[] = [hello(...(random.next() < 0.3 ? [[INITIAL_WINDOW, 1 + random.below(20)] as const] : []))]
  let begun = 0
  let open: (() => Buffer)[][] = []
  // Streams begin in the order of their numbers; what follows goes in any order.
  while (begun < count || open.length > 0) {
    if (begun < count && (open.length === 0 || random.next() < 0.5)) open.push(streams[begun++]!.units)
    const units = begun > 0 && random.next() < 0.3 ? open.at(-1)! : random.oneOf(open)
    // A stream that has begun has sent its head: only then may the next one begin.
    const latest = open.at(-1)!
    frames.push((latest === streams[begun - 1]?.units && !streams[begun - 1]!.hasBegun ? latest : units).shift()!())
    streams[begun - 1]!.hasBegun = true
    open = open.filter(({ length }) => length > 0)
    if (random.next() < 0.2) frames.push(writer.between())
  }
  // Whatever window was left shut.
  frames.push(windowUpdate(0, 2 ** 20), ...streams.map(({ id }) => windowUpdate(id, 2 ** 20)))
  return { chunks: cut(Buffer.concat(frames), random), streamIds: streams.filter(({ isReset }) => !isReset).map(({ id }) => id) }
}

interface StreamScript {
  readonly id: number
  /** Frames that nothing else may come between. Made when it is their turn, for header blocks depend on those before. */
  readonly units: (() => Buffer)[]
  readonly isReset: boolean
  hasBegun: boolean
}

class ConversationWriter {
  readonly #random: Random
  readonly #speller: FieldSpeller

  constructor(random: Random) {
    this.#random = random
    this.#speller = new FieldSpeller(random)
  }

  stream(id: number): StreamScript {
    // What is wrong only at its end may find the call answered already, sooner in one layer than in the other: nothing else is wrong with it.
    const lateFlaw = this.#chance(0.1) ? this.#random.oneOf<'length' | 'trailers'>(LATE_FLAWS) : undefined
    const body = lateFlaw === undefined ? this.#body() : prefixed('message')
    const hasTrailers = lateFlaw === 'trailers' || this.#chance(0.15)
    const fields: Field[] = lateFlaw === undefined ? this.#fields(body.length) : callFields(ECHO_LATER)
    if (lateFlaw === 'length') fields.push(['content-length', String(body.length + this.#random.oneOf([-1, 1]))])
    const pieces = cut(body, this.#random)
    const endsWithHead = body.length === 0 && this.#chance(0.5) && !hasTrailers
    const units = [() => this.#headers(id, fields, endsWithHead)]
    if (!endsWithHead) {
      for (const [i, piece] of pieces.entries()) units.push(() => this.#data(id, piece, i === pieces.length - 1 && !hasTrailers))
      if (pieces.length === 0 && !hasTrailers) units.push(() => this.#data(id, Buffer.alloc(0), true))
      if (hasTrailers) units.push(() => this.#headers(id, lateFlaw === 'trailers' ? this.#badTrailers() : [['x-trailer', 'a']], true))
    }
    const isReset = this.#chance(0.1)
    if (isReset) units.splice(1 + this.#random.below(units.length), units.length, () => reset(id))
    return { id, units, isReset, hasBegun: false }
  }

  /** Frames that change nothing. */
  between(): Buffer {
    return this.#random.oneOf([
      ping(),
      frame(type.PRIORITY, 0, 1001, Buffer.alloc(5)),
      windowUpdate(0, 1 + this.#random.below(100)),
      frame(0x77, 0xff, this.#random.below(9), Buffer.alloc(this.#random.below(20))),
      frame(type.SETTINGS_FRAME, 0, 0, Buffer.concat([Buffer.from([0, INITIAL_WINDOW]), number(1 + this.#random.below(1000))])),
    ])
  }

  #body(): Buffer {
    const message = prefixed('m'.repeat(this.#random.oneOf([0, 1, 7, 100, 1000, 20_000])))
    switch (this.#random.below(10)) {
      case 0:
        return Buffer.alloc(0)
      case 1:
        return Buffer.concat([message, prefixed('second')])
      case 2:
        return message.subarray(0, this.#random.below(message.length))
      case 3:
        return prefixed('compressed', this.#random.oneOf([1, 2, 255]))
      case 4:
        return Buffer.concat([Buffer.from([0]), number(this.#random.oneOf([1024 * 1024 + 1, 2 ** 31, 2 ** 32 - 1])), Buffer.alloc(10)])
      default:
        return message
    }
  }

  #fields(bodyBytes: number): Field[] {
    const { oneOf, below } = { oneOf: this.#random.oneOf.bind(this.#random), below: this.#random.below.bind(this.#random) }
    const pseudo: Field[] = [
      [':method', this.#chance(0.9) ? 'POST' : oneOf(['GET', 'PUT', 'post'])],
      [':scheme', 'http'],
      [':path', this.#chance(0.9) ? oneOf([ECHO, ECHO, ECHO_LATER, FAIL]) : oneOf(['/', '/test.Echo/None', `${ECHO}?a`])],
      [':authority', 'edge'],
    ]
    const regular: Field[] = [['te', 'trailers']]
    if (this.#chance(0.95))
      regular.push([
        'content-type',
        this.#chance(0.9)
          ? 'application/grpc'
          : oneOf(['application/grpc+proto', 'application/grpc;a', 'application/grpc+json', 'text/plain']),
      ])
    if (this.#chance(0.3))
      regular.push([
        'grpc-timeout',
        this.#chance(0.8) ? `${1 + below(99)}${oneOf(['H', 'M'])}` : oneOf(['0m', '1', 'S', '1x', '123456789H']),
      ])
    if (this.#chance(0.2)) regular.push(['grpc-encoding', oneOf(['identity', 'gzip', 'snappy'])])
    if (this.#chance(0.1)) regular.push(['content-length', String(bodyBytes)])
    for (let i = below(4); i > 0; i--)
      regular.push([oneOf(['x-request-id', 'traceparent', 'user-agent', 'cookie', 'accept']), 'v'.repeat(below(60)) + below(1e6)])
    const fields = [...shuffled(pseudo, this.#random), ...shuffled(regular, this.#random)]
    return this.#chance(0.1) ? this.#malformed(fields) : fields
  }

  #malformed(fields: readonly Field[]): Field[] {
    switch (this.#random.below(7)) {
      case 0:
        return without(fields, this.#random.oneOf([':method', ':scheme', ':path']))
      case 1:
        return [...fields, ['X-Upper', 'a']]
      case 2:
        return [...fields, ['connection', 'close']]
      case 3:
        return [...fields, [':path', ECHO]]
      case 4:
        return [[':status', '200'], ...fields]
      case 5:
        return [...fields, ['te', 'gzip']]
      default:
        return [fields[0]!, ...fields]
    }
  }

  #badTrailers(): Field[] {
    const bad: readonly Field[] = [
      [':path', '/'],
      ['X-Upper', 'a'],
      ['connection', 'close'],
    ]
    return [this.#random.oneOf(bad)]
  }

  #headers(id: number, fields: readonly Field[], isEnd: boolean): Buffer {
    const block = this.#speller.block(fields)
    const pieces = this.#chance(0.3) ? cut(block, this.#random, 5) : [block]
    const padding = this.#chance(0.3) ? this.#random.below(40) : -1
    const priority = this.#chance(0.2) ? Buffer.from([0, 0, 0, 0, 16]) : Buffer.alloc(0)
    const flags = (isEnd ? type.END_STREAM : 0) | (padding >= 0 ? type.PADDED : 0) | (priority.length > 0 ? type.HAS_PRIORITY : 0)
    const [first = block, ...rest] = pieces
    const payload = Buffer.concat([...(padding >= 0 ? [Buffer.from([padding])] : []), priority, first, Buffer.alloc(Math.max(0, padding))])
    const last = rest.length - 1
    return Buffer.concat([
      frame(type.HEADERS, flags | (rest.length === 0 ? type.END_HEADERS : 0), id, payload),
      ...rest.map((piece, i) => frame(type.CONTINUATION, i === last ? type.END_HEADERS : 0, id, piece)),
    ])
  }

  #data(id: number, piece: Buffer, isEnd: boolean): Buffer {
    if (!this.#chance(0.3)) return frame(type.DATA, isEnd ? type.END_STREAM : 0, id, piece)
    const padding = this.#random.below(200)
    const payload = Buffer.concat([Buffer.from([padding]), piece, Buffer.alloc(padding)])
    return frame(type.DATA, type.PADDED | (isEnd ? type.END_STREAM : 0), id, payload)
  }

  #chance(share: number): boolean {
    return this.#random.next() < share
  }
}

/** In so many pieces at most, some of them empty; no piece larger than fits into a frame. */
function cut(bytes: Buffer, random: Random, maxPieces = 6): Buffer[] {
  const cuts = Array.from({ length: random.below(maxPieces) }, () => random.below(bytes.length + 1))
  for (let at = 15_000; at < bytes.length; at += 15_000) cuts.push(at)
  const points = [0, ...cuts.sort((a, b) => a - b), bytes.length]
  return points.slice(1).map((to, i) => bytes.subarray(points[i]!, to))
}

function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  return items
    .map((item) => ({ item, key: random.next() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item)
}

function without(fields: readonly Field[], name: string): Field[] {
  return fields.filter((field) => field[0] !== name)
}
