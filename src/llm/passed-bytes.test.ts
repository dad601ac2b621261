import { describe, expect, test } from 'vitest'
import { PassedBytes } from './passed-bytes.ts'

const CHUNK = Buffer.from('data: 1\n\ndata: 2\n\n')

describe('bytes that are passed', () => {
  test('are the chunk itself where nothing changes', () => {
    const out = new PassedBytes()
    out.pass(CHUNK, 0, 9)
    out.pass(CHUNK, 9, 18)
    expect(out.take()).toBe(CHUNK)
  })

  test('are a view where they are a part of it', () => {
    const out = new PassedBytes()
    out.pass(CHUNK, 9, 18)
    const taken = out.take() as Buffer
    expect([taken.buffer, taken.toString()]).toEqual([CHUNK.buffer, 'data: 2\n\n'])
  })

  test('are joined as a text where they lie apart, one letter a byte, whatever they are', () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const out = new PassedBytes()
    out.pass(bytes, 0, 100)
    out.pass(CHUNK, 0, 9)
    out.add('text')
    out.pass(bytes, 100, 256)
    const joined = Buffer.concat([bytes.subarray(0, 100), CHUNK.subarray(0, 9), Buffer.from('text'), bytes.subarray(100)])
    expect(out.take()).toBe(joined.toString('latin1'))
  })

  test('do not change with the bytes that they were joined from', () => {
    const shared = Buffer.from(CHUNK)
    const out = new PassedBytes()
    out.pass(shared, 0, 6)
    out.add('one')
    out.pass(shared, 7, 18)
    const taken = out.take()
    shared.fill('!')
    expect(taken).toBe('data: one\n\ndata: 2\n\n')
  })

  test('are taken once', () => {
    const out = new PassedBytes()
    out.add('x')
    out.take()
    expect(out.take()).toHaveLength(0)
  })
})
