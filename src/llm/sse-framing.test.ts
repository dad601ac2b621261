import { describe, expect, test, vi } from 'vitest'
import { finished, pushed } from '../../test/support/llm/sse-pieces.ts'
import { SseFraming, type SsePiece } from './sse-framing.ts'

const LARGE = 1 << 20

/** Kinds and bytes of the pieces that these chunks give, the end included. An LF behind a CR is shown with its CR. */
function cut(chunks: readonly string[], maxEventBytes = LARGE): string[] {
  const framing = new SseFraming(maxEventBytes)
  const pieces = [...chunks.flatMap((chunk) => pushed(framing, Buffer.from(chunk, 'latin1'))), ...finished(framing)]
  const texts: string[] = []
  for (const { kind, bytes } of pieces) {
    if (kind === 'line_end') texts.push(`${texts.pop()}${bytes.toString('latin1')}`)
    else texts.push(`${kind} ${bytes.toString('latin1')}`)
  }
  return texts
}

/** The lines that are not empty, as the pieces name them. */
function linesOf({ bytes, lines }: SsePiece): string[] {
  const texts: string[] = []
  for (let i = 0; i < lines.length; i += 2) texts.push(bytes.toString('latin1', lines[i], lines[i + 1]))
  return texts
}

describe('an event', () => {
  test.each([
    ['LF', 'event: a\ndata: 1\n\n', 'data: 2\n\n'],
    ['CRLF', 'event: a\r\ndata: 1\r\n\r\n', 'data: 2\r\n\r\n'],
    ['CR', 'event: a\rdata: 1\r\r', 'data: 2\r\r'],
    ['LF and CRLF', 'event: a\ndata: 1\r\n\n', 'data: 2\n\r\n'],
    ['CR and LF', 'event: a\rdata: 1\n\r', 'data: 2\r\r'],
    ['CRLF and CR', 'event: a\r\ndata: 1\r\n\r', 'data: 2\r\n\r'],
  ])('ends at a blank line: %s', (_, first, second) => {
    expect(cut([first + second])).toEqual([`event ${first}`, `event ${second}`])
  })

  test('comes out as soon as its blank line is there, whatever that ends with', () => {
    for (const text of ['data: 1\n\n', 'data: 1\r\n\r', 'data: 1\r\r']) {
      const framing = new SseFraming(LARGE)
      expect(pushed(framing, text.slice(0, -1))).toEqual([])
      expect(pushed(framing, text.slice(-1))).toHaveLength(1)
    }
  })

  test('comes out though the next one has begun, and that waits for its end', () => {
    const framing = new SseFraming(LARGE)
    expect(pushed(framing, 'data: 1\n\ndata: 2\n\ndata').map(({ bytes }) => bytes.toString())).toEqual(['data: 1\n\n', 'data: 2\n\n'])
    expect(pushed(framing, ': 3\n\n').map(({ bytes }) => bytes.toString())).toEqual(['data: 3\n\n'])
    expect(finished(framing)).toEqual([])
  })

  test('may come a byte at a time', () => {
    expect(cut([...'data: 1\n\ndata: 2\n\n'])).toEqual(['event data: 1\n\n', 'event data: 2\n\n'])
    expect(cut([...'data: 1\r\rdata: 2\r\r'])).toEqual(['event data: 1\r\r', 'event data: 2\r\r'])
  })

  test('may have nothing but a comment, or nothing at all', () => {
    expect(cut([': keep-alive\n\ndata: 1\n\n\n\n'])).toEqual(['event : keep-alive\n\n', 'event data: 1\n\n', 'event \n', 'event \n'])
  })

  test('names its lines without their ends', () => {
    const [piece] = pushed(new SseFraming(LARGE), ': c\r\nevent: e\rdata: 1\n\r\n')
    expect(linesOf(piece!)).toEqual([': c', 'event: e', 'data: 1'])
  })

  test('names its lines though they came in pieces, behind other events', () => {
    const framing = new SseFraming(LARGE)
    pushed(framing, 'data: 0\n\nda')
    pushed(framing, 'ta: 1\r')
    pushed(framing, '\ndata: 2\r\n')
    const [piece] = pushed(framing, '\r\ndata: 3\r\nda')
    expect(linesOf(piece!)).toEqual(['data: 1', 'data: 2'])
    const [next] = pushed(framing, 'ta: 4\n\n')
    expect(linesOf(next!)).toEqual(['data: 3', 'data: 4'])
  })

  test('that is the first of the stream says so, however it came', () => {
    for (const chunks of [['data: 1\n\ndata: 2\n\n'], [...'data: 1\n\ndata: 2\n\n']]) {
      const framing = new SseFraming(LARGE)
      expect(chunks.flatMap((chunk) => pushed(framing, chunk)).map(({ isFirst }) => isFirst)).toEqual([true, false])
    }
  })

  test('does not change when more bytes come', () => {
    const framing = new SseFraming(LARGE)
    pushed(framing, 'da')
    const [piece] = pushed(framing, 'ta: 1\n\ndata: 2')
    for (let i = 0; i < 200; i++) pushed(framing, 'more and more text')
    pushed(framing, '\n\n')
    expect(piece!.bytes.toString()).toBe('data: 1\n\n')
  })
})

describe('a line end of CR and LF in two chunks', () => {
  test('is one line end', () => {
    expect(cut(['data: 1\r', '\ndata: 2\r', '\n\r\n'])).toEqual(['event data: 1\r\ndata: 2\r\n\r\n'])
  })

  test('lets the event go at the CR, and its LF by itself', () => {
    const framing = new SseFraming(LARGE)
    expect(pushed(framing, 'data: 1\r\n\r\n').map(({ kind, bytes }) => [kind, bytes.toString()])).toEqual([
      ['event', 'data: 1\r\n\r'],
      ['line_end', '\n'],
    ])
    expect(cut(['data: 1\r\n\r', '\ndata: 2\r\n\r\n'])).toEqual(['event data: 1\r\n\r\n', 'event data: 2\r\n\r\n'])
  })

  test('is recognised behind an empty chunk too', () => {
    expect(cut(['data: 1\r\n\r', '', '\n', 'data: 2\n\n'])).toEqual(['event data: 1\r\n\r\n', 'event data: 2\n\n'])
    expect(cut(['data: 1\r', '', '\n', '\n'])).toEqual(['event data: 1\r\n\n'])
  })

  test('leaves an LF that comes after other bytes alone', () => {
    expect(cut(['data: 1\r\r', 'data: 2\n', '\n'])).toEqual(['event data: 1\r\r', 'event data: 2\n\n'])
    expect(cut(['data: 1\r', 'x', '\n', '\n'])).toEqual(['event data: 1\rx\n\n'])
  })

  test('is followed by a blank line that counts', () => {
    expect(cut(['data: 1\r\n\r', '\n', '\n'])).toEqual(['event data: 1\r\n\r\n', 'event \n'])
    expect(cut(['data: 1\r\n\r\n\n'])).toEqual(['event data: 1\r\n\r\n', 'event \n'])
  })
})

describe('the end of a stream', () => {
  test('gives what had no blank line', () => {
    const framing = new SseFraming(LARGE)
    pushed(framing, 'data: 1\n\nevent: e\ndata: 2')
    const [piece, ...rest] = finished(framing)
    expect(rest).toEqual([])
    expect(piece).toMatchObject({ kind: 'event', isFirst: false, isEnded: false })
    expect(linesOf(piece!)).toEqual(['event: e', 'data: 2'])
  })

  test('gives a last line that has its end once', () => {
    const framing = new SseFraming(LARGE)
    pushed(framing, 'data: 2\n')
    expect(linesOf(finished(framing)[0]!)).toEqual(['data: 2'])
  })

  test('gives nothing where nothing is left', () => {
    expect(cut([])).toEqual([])
    expect(cut([''])).toEqual([])
    expect(cut(['data: 1\n\n'])).toEqual(['event data: 1\n\n'])
    expect(cut(['data: 1\r\n\r'])).toEqual(['event data: 1\r\n\r'])
  })
})

describe('an event that is too large', () => {
  test('is one of more bytes than allowed, and not one of as many', () => {
    expect(cut(['data: 12\n\n'], 10)).toEqual(['event data: 12\n\n'])
    expect(cut(['data: 123\n\n'], 10)).toEqual(['oversize data: 123\n\n'])
  })

  test('passes in parts while it comes', () => {
    const framing = new SseFraming(10)
    expect(pushed(framing, 'data: ')).toEqual([])
    expect(pushed(framing, 'abcdefg')).toMatchObject([{ kind: 'part', bytes: Buffer.from('data: abcdefg') }])
    expect(pushed(framing, 'hij')).toMatchObject([{ kind: 'part', bytes: Buffer.from('hij') }])
    expect(pushed(framing, 'k\n\ndata: 2\n\n')).toMatchObject([
      { kind: 'oversize', bytes: Buffer.from('k\n\n') },
      { kind: 'event', bytes: Buffer.from('data: 2\n\n') },
    ])
  })

  test.each([['\n'], ['\r\n'], ['\r']])('ends at its blank line wherever the parts were cut, with %j', (lineEnd) => {
    const text = `data: ${'x'.repeat(20)}${lineEnd}data: y${lineEnd}${lineEnd}`
    const next = `data:2${lineEnd}${lineEnd}`
    for (let at = 11; at < text.length - 1; at++) {
      const pieces = cut([text.slice(0, at), text.slice(at) + next], 10)
      expect(pieces).toEqual([`part ${text.slice(0, at)}`, `oversize ${text.slice(at)}`, `event ${next}`])
    }
  })

  test('ends with the stream where no blank line comes', () => {
    expect(cut(['data: 1234567', '89'], 10)).toEqual(['part data: 1234567', 'part 89', 'oversize '])
    expect(cut(['data: 123\n'], 9)).toEqual(['part data: 123\n', 'oversize '])
  })

  test('is held in memory no further than allowed', () => {
    const framing = new SseFraming(100)
    let held = 0
    for (let i = 0; i < 1000; i++) {
      held += 7
      for (const { bytes } of pushed(framing, 'x'.repeat(7))) held -= bytes.length
      expect(held).toBeLessThanOrEqual(100)
    }
  })
})

test.each([
  ['one byte a chunk', 1, 5000],
  ['small chunks', 7, 5000],
])('no byte is looked at or copied again and again, in an event of %s', (_, chunkBytes, count) => {
  const work = countWork()
  const framing = new SseFraming(LARGE)
  for (let i = 0; i < count; i++) pushed(framing, 'x'.repeat(chunkBytes - 1) + (i % 10 === 9 ? '\n' : 'x'))
  expect(work.bytes()).toBeLessThan(count * chunkBytes * 12)
})

test('no byte is looked at again and again, in a chunk of many events', () => {
  for (const text of ['data: 1\n\n', 'data: 1\r\r', 'data: 1\r\n\r\n', 'data: 1\n\ndata: 2\r\r']) {
    const chunk = Buffer.from(text.repeat(5000))
    const work = countWork()
    new SseFraming(LARGE).push(chunk)
    expect(work.bytes()).toBeLessThan(chunk.length * 4)
  }
})

/** Bytes that are searched, copied and allocated from now on, until the test is over. */
function countWork(): { bytes(): number } {
  let bytes = 0
  const indexOf = Buffer.prototype.indexOf
  const copy = Buffer.prototype.copy
  const allocUnsafe = Buffer.allocUnsafe
  const spies = [
    vi.spyOn(Buffer.prototype, 'indexOf').mockImplementation(function (this: Buffer, value: unknown, from?: unknown) {
      const at = indexOf.call(this, value as number, from as number)
      bytes += (at < 0 ? this.length : at) - (from as number)
      return at
    }),
    vi.spyOn(Buffer.prototype, 'copy').mockImplementation(function (this: Buffer, ...args: unknown[]) {
      const copied = copy.apply(this, args as Parameters<Buffer['copy']>)
      bytes += copied
      return copied
    }),
    vi.spyOn(Buffer, 'allocUnsafe').mockImplementation((size) => {
      bytes += size
      return allocUnsafe(size)
    }),
  ]
  return {
    bytes: () => {
      for (const spy of spies) spy.mockRestore()
      return bytes
    },
  }
}
