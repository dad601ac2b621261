import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { callFields, data, type Frame, frame, headers, hello, ping, plainBlock, settings } from '../../../../test/support/grpc/frames.ts'
import { BAD_PREFACE, FRAME_SIZE_ERROR, FrameReader, NO_ERROR, PREFACE } from './frame-reader.ts'

const BYTES = Buffer.concat([
  hello(),
  headers(1, plainBlock(callFields('/a.B/C'))),
  data(1, Buffer.alloc(300, 'x')),
  settings(),
  ping(),
  data(3, Buffer.alloc(0)),
])

test('frames are the same wherever the bytes are cut', () => {
  const whole = framesOf([BYTES])
  expect(whole).toHaveLength(6)
  for (let at = 0; at <= BYTES.length; at++) {
    const cut = framesOf([BYTES.subarray(0, at), BYTES.subarray(at)])
    // `toEqual` takes long, and is needed only to tell what differs.
    if (!isDeepStrictEqual(cut, whole)) expect(cut).toEqual(whole)
  }
  expect(framesOf([...BYTES].map((byte) => Buffer.from([byte])))).toEqual(whole)
})

test.each([1, 5, 9, 20])('a frame that is too long is refused before it comes, in chunks of %i', (size) => {
  const bytes = Buffer.concat([hello(), frame(0, 0, 1, Buffer.alloc(16_385))])
  const reader = new FrameReader(() => NO_ERROR)
  let error = NO_ERROR
  let at = 0
  for (; at < bytes.length && error === NO_ERROR; at += size)
    error = reader.read(bytes.subarray(at, at + size), Math.min(size, bytes.length - at))
  expect(error).toBe(FRAME_SIZE_ERROR)
  expect(at).toBeLessThan(hello().length + 9 + size)
})

test('bytes that are no preface are refused at the first that differs', () => {
  for (let at = 0; at < PREFACE.length; at++) {
    const bytes = Buffer.from(PREFACE.subarray(0, at + 1))
    bytes[at] = 0x7f
    expect(new FrameReader(() => NO_ERROR).read(bytes, bytes.length)).toBe(BAD_PREFACE)
  }
})

test('nothing is read behind a frame that ends the connection', () => {
  let frames = 0
  const reader = new FrameReader(() => (++frames === 2 ? 1 : NO_ERROR))
  expect(reader.read(BYTES, BYTES.length)).toBe(1)
  expect(frames).toBe(2)
})

function framesOf(chunks: readonly Buffer[]): Frame[] {
  const frames: Frame[] = []
  const reader = new FrameReader((type, flags, streamId, bytes, from, to) => {
    frames.push({ type, flags, streamId, payload: Buffer.from(bytes.subarray(from, to)) })
    return NO_ERROR
  })
  const errors = chunks.map((chunk) => reader.read(chunk, chunk.length)).filter((error) => error !== NO_ERROR)
  expect(errors).toEqual([])
  return frames
}
