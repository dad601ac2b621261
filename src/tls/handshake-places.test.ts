import { describe, expect, test } from 'vitest'
import { heldTime } from '../../test/support/service/held-time.ts'
import { until } from '../../test/support/until.ts'
import { HandshakePlaces, type PendingHandshake } from './handshake-places.ts'

/** What becomes of handshakes, in order. A name begins with its address, such as `a` in `a1`. */
class Noted {
  readonly events: string[] = []
  nowMs = 0
  readonly places: HandshakePlaces
  readonly #byName = new Map<string, PendingHandshake>()

  constructor(maxRunning: number, turnsBetween?: number) {
    this.places = new HandshakePlaces({
      maxRunning,
      share: 0.6,
      ...(turnsBetween !== undefined && { turnsBetween }),
      nowMs: () => this.nowMs,
    })
    this.places.costMs = 0
  }

  enter(...names: string[]): void {
    for (const name of names) {
      const handshake: PendingHandshake = {
        address: addressOf(name),
        heldBytes: 500,
        begin: () => void this.events.push(`${name} begins`),
        hold: () => void this.events.push(`${name} waits`),
        cut: () => {
          this.events.push(`${name} is cut`)
          this.leave(name)
        },
      }
      this.#byName.set(name, handshake)
      this.places.enter(handshake)
    }
  }

  leave(name: string, sentBytes = 500): void {
    this.places.leave(this.#byName.get(name)!, sentBytes)
  }

  /** What has happened since the last call. */
  news(): string[] {
    return this.events.splice(0)
  }
}

/** Letters are IPv4 addresses; digits before a colon are networks of IPv6, in which what follows is a host. */
function addressOf(name: string): string {
  const [, network, host] = /^(\d+):(\d+)/.exec(name) ?? []
  return network === undefined ? `10.0.0.${name.charCodeAt(0)}` : `2001:db8:0:${network}::${host}`
}

const numbered = (letter: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${letter}${i}`)

test('as many handshakes run as there are places, and others wait for their turn', () => {
  const noted = new Noted(2)
  noted.enter('a', 'b', 'c', 'd', 'e')
  noted.leave('d') // which has closed while it waited
  noted.leave('b')
  noted.leave('a')
  expect(noted.events).toEqual(['a begins', 'b begins', 'c waits', 'd waits', 'e waits', 'c begins', 'e begins'])
})

test('it is the turn of addresses, however many handshakes of one wait', () => {
  const noted = new Noted(1)
  noted.enter('a0', 'a1', 'a2', 'a3', 'b0', 'b1', '7:1', '7:2')
  noted.news()
  const order: string[] = []
  for (let last = 'a0'; last !== ''; order.push(last)) {
    noted.leave(last)
    last = noted.news()[0]?.split(' ')[0] ?? ''
  }
  // Both hosts of the IPv6 network are one address.
  expect(order.slice(0, -1)).toEqual(['b0', '7:1', 'a1', 'b1', '7:2', 'a2', 'a3'])
})

test('an address that comes anew does not wait for all those that want more than one', () => {
  const noted = new Noted(1)
  noted.enter('a0', ...Array.from({ length: 300 }, (_, i) => `${i % 100}:${i}`))
  // Each has had one turn; two more of each wait.
  let last = 'a0'
  const next = (): string => {
    noted.news()
    noted.leave(last)
    last = noted.news()[0]!.split(' ')[0]!
    return last
  }
  while (!last.startsWith('99:')) next()
  noted.enter('b0')
  expect([next(), next()]).toContain('b0')
})

test('the event loop turns between two handshakes, which goes on in the order of addresses', async () => {
  const noted = new Noted(1000, 3)
  noted.enter('a0', 'a1', 'a2', 'a3', 'b0', 'b1')
  const begun = (): string[] => noted.events.filter((event) => event.endsWith(' begins')).map((event) => event.slice(0, -7))
  expect(begun()).toEqual(['a0'])
  for (const isFirstTurn of [true, false]) {
    await new Promise(setImmediate)
    expect(begun(), String(isFirstTurn)).toEqual(['a0'])
  }
  await until(() => begun().length === 6)
  expect(begun()).toEqual(['a0', 'b0', 'a1', 'b1', 'a2', 'a3'])
})

test('an address that has none gets the place that the address with most has had for longest', async () => {
  const noted = new Noted(4)
  noted.enter('b0', 'a0', 'a1', 'a2')
  noted.enter('a3', 'a4', 'c0')
  noted.news()
  noted.nowMs = 249
  noted.leave('a3') // makes it look once more
  expect(noted.news()).toEqual([])
  noted.nowMs = 250
  await until(() => noted.events.length > 0)
  // b has one, as c has now, and what else a wants must wait.
  expect(noted.news()).toEqual(['a0 is cut', 'c0 begins'])
})

test.each([500, 50])('one address that takes all %i places over and over again delays another by a moment', async (places) => {
  const noted = new Noted(places)
  noted.enter(...numbered('a', 4 * places), 'b0')
  noted.news()
  noted.nowMs = 250
  await until(() => noted.events.includes('b0 begins'))
  expect(noted.news()).toEqual(['a0 is cut', 'b0 begins'])
})

describe('where a hundred addresses take two turns of all places', () => {
  const time = heldTime()

  test('one more has its turn within a second or two', async () => {
    const noted = new Noted(50)
    noted.enter(...Array.from({ length: 400 }, (_, i) => `${i % 100}:${i}`), 'b0')
    while (!noted.events.includes('b0 begins') && noted.nowMs < 10_000) {
      noted.nowMs += 50
      time.pass(50)
      await new Promise(setImmediate)
    }
    expect(noted.nowMs).toBeLessThanOrEqual(1500)
  })
})

test('while others wait, one that takes more than a second loses its place, and not otherwise', async () => {
  const noted = new Noted(2)
  noted.enter('a', 'b')
  noted.nowMs = 60_000
  noted.leave('a')
  noted.enter('c')
  expect(noted.news()).toEqual(['a begins', 'b begins', 'c begins'])
  noted.enter('d')
  await until(() => noted.events.includes('d begins'))
  expect(noted.news()).toEqual(['d waits', 'b is cut', 'd begins'])
  noted.nowMs += 999
  noted.enter('e')
  noted.leave('d')
  expect(noted.news()).toEqual(['e waits', 'e begins'])
})

test('no more wait than is sensible, most of all not of one address', () => {
  const noted = new Noted(0)
  noted.enter(...numbered('a', 5000), 'b0', 'b1')
  expect(noted.events.filter((event) => event.endsWith('is cut'))).toHaveLength(999)
  expect(noted.news().slice(-2)).toEqual(['b0 waits', 'b1 waits'])
})

test('beyond their share of time, handshakes wait, and go on as it grows back', async () => {
  const noted = new Noted(1000)
  noted.places.costMs = 60
  noted.enter('a', 'b', 'c', 'd')
  // 100 ms at once; then 60 percent of the time.
  expect(noted.events).toEqual(['a begins', 'b begins', 'c waits', 'd waits'])
  noted.nowMs = 40
  await until(() => noted.events.includes('c begins'))
  expect(noted.events).not.toContain('d begins')
  noted.nowMs = 200
  await until(() => noted.events.includes('d begins'))
})

test('a client that sends a long chain of certificates makes later handshakes wait for what its check took', async () => {
  const noted = new Noted(1000)
  noted.enter('a')
  noted.leave('a', 3000)
  noted.enter('b')
  noted.leave('b', 42 * 1024)
  noted.enter('c')
  expect(noted.events).toEqual(['a begins', 'b begins', 'c waits'])
  // 238 ms, of which 100 were there, at 60 percent of the time.
  noted.nowMs = 231
  await until(() => noted.events.includes('c begins'))
})
