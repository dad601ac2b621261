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
    const taken = out.take()
    expect([taken.buffer, taken.toString()]).toEqual([CHUNK.buffer, 'data: 2\n\n'])
  })

  test('are joined where they lie apart, whatever they are', () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const out = new PassedBytes()
    out.pass(bytes, 0, 100)
    out.pass(CHUNK, 0, 9)
    out.add('text')
    out.pass(bytes, 100, 256)
    expect(out.take()).toEqual(Buffer.concat([bytes.subarray(0, 100), CHUNK.subarray(0, 9), Buffer.from('text'), bytes.subarray(100)]))
  })

  test('have a text in place of some, alone or beside others', () => {
    const out = new PassedBytes()
    out.passSpliced(CHUNK, 0, 18, 6, 7, 'one')
    expect(out.take().toString()).toBe('data: one\n\ndata: 2\n\n')
    out.passSpliced(CHUNK, 0, 9, 6, 6, 'one')
    out.passSpliced(CHUNK, 9, 18, 15, 16, 'two')
    expect(out.take().toString()).toBe('data: one1\n\ndata: two\n\n')
    expect(CHUNK.toString()).toBe('data: 1\n\ndata: 2\n\n')
  })

  test('are taken once', () => {
    const out = new PassedBytes()
    out.add('x')
    out.take()
    expect(out.take()).toHaveLength(0)
  })
})
