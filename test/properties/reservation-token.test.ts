import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PRICED, RELEASED, SETTLED_TO_COST, SETTLED_TO_TOKENS } from '../../src/costs/cost.ts'
import type { LocatedCharge, LocatedCounter } from '../../src/engine/reservation.ts'
import { calendarOf, PERIODS } from '../../src/limiter/calendar.ts'
import { BUCKET, IN_FLIGHT, WINDOW } from '../../src/limiter/limit.ts'
import { decodeContent, encodeContent, type ReservationName } from '../../src/reservations/reservation-content.ts'
import { openToken, sealToken } from '../../src/reservations/reservations.ts'
import { anyText } from '../support/random/any-text.ts'

const KEY = randomBytes(32)

const hex = (bytes: number) => fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((list) => Buffer.from(list).toString('hex'))
const word = fc.nat(0xffff_ffff)
const positive = fc.double({ min: Number.MIN_VALUE, max: Number.MAX_VALUE, noNaN: true })
const time = fc.double({ min: 0, max: 8.64e15, noNaN: true })

const limit = fc.oneof(
  fc.record({ kind: fc.constant(IN_FLIGHT), max: positive, sliceMs: positive }),
  fc.record({ kind: fc.constant(BUCKET), tokensPerMs: positive, burst: positive }),
  fc.record({
    kind: fc.constant(WINDOW),
    tokens: positive,
    calendar: fc
      .tuple(fc.constantFrom(...PERIODS), fc.constantFrom('UTC', 'Europe/Berlin', 'America/Argentina/ComodRivadavia'))
      .map(([period, zone]) => calendarOf(period, zone)),
  }),
)
const counter: fc.Arbitrary<LocatedCounter> = fc.record({
  locator: fc.record({ identity: hex(8), tag: hex(8), key: fc.option(hex(16), { nil: undefined }) }),
  limit,
})
const charge: fc.Arbitrary<LocatedCharge> = fc.record({
  settling: fc.oneof(
    fc.constantFrom(SETTLED_TO_TOKENS, RELEASED, SETTLED_TO_COST),
    fc.record({ kind: fc.constant(PRICED), numbers: fc.array(positive, { minLength: 4, maxLength: 4 }) }),
  ),
  isHold: fc.boolean(),
  amount: fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }),
  taken: fc.record({ wallMs: time, momentMs: time, from: fc.constantFrom('local' as const, 'shared' as const, 'none' as const) }),
  counters: fc.array(counter, { maxLength: 3 }),
  caller: fc.option(hex(8), { nil: undefined }),
  subject: fc.option(hex(8), { nil: undefined }),
})
const content = fc.record({ issuedMs: time, taker: fc.option(hex(8), { nil: undefined }), charges: fc.array(charge, { maxLength: 10 }) })
const name: fc.Arbitrary<ReservationName> = fc.record({
  instance: hex(8),
  run: hex(8),
  worker: fc.nat(255),
  hour: word,
  number: word,
})

describe('a token', () => {
  test('says all that went into it', () => {
    fc.assert(
      fc.property(name, content, (named, written) => {
        const token = sealToken(KEY, named, encodeContent(written))
        if (token === undefined) return
        expect(token).toMatch(/^[\w-]+$/)
        const opened = openToken(KEY, token)!
        expect(opened.name).toEqual(named)
        expect(decodeContent(opened.content)).toEqual(written)
      }),
    )
  })

  test('for ten rules with two counters each in Redis is well below 4 KiB', () => {
    const locator = { identity: 'a'.repeat(16), tag: 'b'.repeat(16), key: 'c'.repeat(32) }
    const counters: LocatedCounter[] = [
      { locator, limit: { kind: BUCKET, tokensPerMs: 0.1, burst: 1e6 } },
      { locator, limit: { kind: WINDOW, tokens: 1e9, calendar: calendarOf('1mo', 'America/Argentina/Buenos_Aires') } },
    ]
    const taker = 'f'.repeat(16)
    const taken = { wallMs: 1, momentMs: 1, from: 'shared' } as const
    const charges = Array.from({ length: 10 }, () => ({
      settling: SETTLED_TO_TOKENS,
      isHold: false,
      amount: 1,
      taken,
      counters,
      caller: taker,
      subject: taker,
    }))
    const named = { instance: 'd'.repeat(16), run: 'e'.repeat(16), worker: 1, hour: 1, number: 1 }
    expect(sealToken(KEY, named, encodeContent({ issuedMs: 1, taker, charges }))!.length).toBeLessThan(3000)
    const many = Array.from({ length: 5 }, () => charges).flat()
    expect(sealToken(KEY, named, encodeContent({ issuedMs: 1, taker, charges: many }))).toBeUndefined()
  })

  test('cannot be opened with another key, or after any change', () => {
    fc.assert(
      fc.property(name, content, fc.nat(), fc.integer({ min: 1, max: 255 }), (named, written, at, change) => {
        const token = sealToken(KEY, named, encodeContent(written))
        if (token === undefined) return
        expect(openToken(randomBytes(32), token)).toBeUndefined()
        const bytes = Buffer.from(token, 'base64url')
        bytes[at % bytes.length]! ^= change
        expect(openToken(KEY, bytes.toString('base64url'))).toBeUndefined()
      }),
    )
  })

  test('of anything is refused, whatever it is', () => {
    fc.assert(fc.property(fc.oneof(anyText(), fc.base64String()), (text) => openToken(KEY, text) === undefined))
  })
})

test('content of any bytes is either read or refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const read = decodeContent(Buffer.from(bytes))
      if (read !== undefined) expect(encodeContent(read).length).toBe(bytes.length)
    }),
  )
})
