import { expect, test } from 'vitest'
import { ChunkedFrames } from './chunked-frames.ts'

test('one that follows another knows nothing of what it followed before', () => {
  const lookahead = new ChunkedFrames()
  lookahead.follow(framesAfter('0\r\nConnection: clo'))
  skip(lookahead, 's')
  lookahead.follow(framesAfter('0\r\nX-A: b'))
  skip(lookahead, 'e\r\n\r\n')
  expect([lookahead.isDone, lookahead.isLast]).toEqual([true, false])
  lookahead.follow(framesAfter('0\r\nConnection: clo'))
  skip(lookahead, 'se\r\n\r\n')
  expect([lookahead.isDone, lookahead.isLast]).toEqual([true, true])
})

function framesAfter(text: string): ChunkedFrames {
  const frames = new ChunkedFrames()
  frames.begin()
  skip(frames, text)
  return frames
}

function skip(frames: ChunkedFrames, text: string): void {
  frames.skipFrame(Buffer.from(text), 0, text.length)
}
