import { expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { HandshakePlaces, type PendingHandshake } from './handshake-places.ts'

/** What becomes of handshakes, in order. */
class Noted {
  readonly events: string[] = []
  nowMs = 0
  readonly places: HandshakePlaces
  readonly #byName = new Map<string, PendingHandshake>()

  constructor(maxRunning: number) {
    this.places = new HandshakePlaces(maxRunning, () => this.nowMs)
    this.places.costMs = 0
  }

  enter(name: string): void {
    const handshake: PendingHandshake = {
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

  leave(name: string, sentBytes = 500): void {
    this.places.leave(this.#byName.get(name)!, sentBytes)
  }
}

test('as many handshakes run as there are places, and others wait for their turn', () => {
  const noted = new Noted(2)
  for (const name of ['a', 'b', 'c', 'd', 'e']) noted.enter(name)
  noted.leave('d') // which has closed while it waited
  noted.leave('b')
  noted.leave('a')
  expect(noted.events).toEqual(['a begins', 'b begins', 'c waits', 'd waits', 'e waits', 'c begins', 'e begins'])
})

test('while others wait, those that take too long lose their place, and no more of them than there are others', async () => {
  const noted = new Noted(2)
  for (const name of ['a', 'b', 'c']) noted.enter(name)
  noted.nowMs = 4999
  noted.enter('d')
  noted.leave('a')
  expect(noted.events.slice(4)).toEqual(['c begins'])
  noted.nowMs = 5000
  noted.leave('c')
  // d has taken its place, so b keeps its own, however long it takes.
  noted.nowMs = 60_000
  expect(noted.events.slice(5)).toEqual(['d begins'])
  noted.enter('e')
  noted.leave('d')
  expect(noted.events.slice(6)).toEqual(['e waits', 'e begins'])
})

test('one that takes too long is cut for one that waits, even if nothing else happens', async () => {
  const noted = new Noted(1)
  noted.enter('a')
  noted.nowMs = 5001
  noted.enter('b')
  await until(() => noted.events.includes('b begins'))
  expect(noted.events).toEqual(['a begins', 'b waits', 'a is cut', 'b begins'])
})

test('beyond their share of time, handshakes wait, and go on as it grows back', async () => {
  const noted = new Noted(1000)
  noted.places.costMs = 60
  for (const name of ['a', 'b', 'c', 'd']) noted.enter(name)
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
