import fc from 'fast-check'
import { expect, test } from 'vitest'
import { GrowingBuffer } from './growing-buffer.ts'

test('any pieces give the bytes that came, in at most twice their memory above a kilobyte', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 3000 })), (pieces) => {
      const buffer = new GrowingBuffer()
      for (const piece of pieces) buffer.add(piece)
      const { bytes, size } = buffer
      expect(bytes.equals(Buffer.concat(pieces))).toBe(true)
      expect(size).toBe(bytes.length)
      expect(bytes.buffer.byteLength).toBeLessThanOrEqual(Math.max(1024, 2 * size))
    }),
  )
})
