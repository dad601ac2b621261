import { describe, expect, test } from 'vitest'
import { acquire, ownerOf } from '../memory/shared-lock.ts'
import { newRevokedBuffer, RevokedSessions } from './revoked-sessions.ts'

const CAPACITY = 1024

describe('a session that logged out', () => {
  test('is out for all who share the memory, and no other is', () => {
    const [one, other] = twoThreads()
    one.add(idOf(1), 1000)
    expect([one.has(idOf(1), 1000), other.has(idOf(1), 1000)]).toEqual([true, true])
    expect([one.has(idOf(2), 1000), other.has(idOf(2), 1000)]).toEqual([false, false])
  })

  test('is told apart by every byte of its id', () => {
    const [sessions] = twoThreads()
    const id = idOf(7)
    sessions.add(id, 1000)
    for (let byte = 0; byte < 16; byte++) {
      const other = Buffer.from(id)
      other[byte]! ^= 0x80
      expect(sessions.has(other, 1000)).toBe(false)
    }
  })

  test('never comes to life again, however many follow it: those that end no later go with it', () => {
    const [sessions, other] = twoThreads()
    const count = 5 * CAPACITY + 3
    for (let i = 0; i < count; i++) (i % 2 === 0 ? sessions : other).add(idOf(i), 1000 + i)
    for (let i = 0; i < count; i++) expect(sessions.has(idOf(i), 1000 + i)).toBe(true)
    // The last that had to make room ended then.
    const floor = 1000 + count - CAPACITY - 1
    expect(sessions.has(idOf(count), floor)).toBe(true)
    expect(sessions.has(idOf(count), floor + 1)).toBe(false)
  })

  test('logs nobody else out as long as there is room', () => {
    const [sessions] = twoThreads()
    for (let i = 0; i < CAPACITY; i++) sessions.add(idOf(i), 5000)
    expect(sessions.has(idOf(CAPACITY), 1)).toBe(false)
    sessions.add(idOf(CAPACITY), 5000)
    expect(sessions.has(idOf(CAPACITY + 1), 5000)).toBe(true)
    expect(sessions.has(idOf(CAPACITY + 1), 5001)).toBe(false)
  })

  test('that ends early does not lift what went before', () => {
    const [sessions] = twoThreads()
    for (let i = 0; i < CAPACITY; i++) sessions.add(idOf(i), i === 0 ? 9000 : 100)
    for (let i = 0; i < CAPACITY; i++) sessions.add(idOf(CAPACITY + i), 100)
    expect(sessions.has(idOf(0), 9000)).toBe(true)
  })
})

describe('the lock of a dead thread', () => {
  test('is freed, and nobody else’s is', () => {
    const buffer = newRevokedBuffer()
    const words = new Int32Array(buffer)
    const sessions = new RevokedSessions(buffer, 1)
    acquire(words, 0, 3)
    sessions.forgetWorker(2)
    expect(ownerOf(words, 0)).toBe(3)
    sessions.forgetWorker(3)
    expect(ownerOf(words, 0)).toBe(0)
    sessions.add(idOf(1), 10)
    expect(sessions.has(idOf(1), 10)).toBe(true)
  })
})

function twoThreads(): [RevokedSessions, RevokedSessions] {
  const buffer = newRevokedBuffer()
  return [new RevokedSessions(buffer, 1), new RevokedSessions(buffer, 2)]
}

function idOf(number: number): Buffer {
  const id = Buffer.alloc(16, 0x5a)
  id.writeUInt32LE(number, 12)
  return id
}
