import { describe, expect, test } from 'vitest'
import { pushed } from '../../test/support/llm/sse-pieces.ts'
import { type EventData, readEventData, SseFraming } from './sse-framing.ts'

/** The data of the last event in a text. */
function read(text: string): EventData | undefined {
  const events = pushed(new SseFraming(1 << 20), text).filter(({ kind }) => kind === 'event')
  return readEventData(events.at(-1)!)
}

describe('the data of an event', () => {
  test.each([
    ['after one space', 'data: x\n\n', 'x'],
    ['without a space', 'data:x\n\n', 'x'],
    ['with further spaces', 'data:  x \n\n', ' x '],
    ['after a tab', 'data:\tx\n\n', '\tx'],
    ['with a colon in it', 'data: a: b\n\n', 'a: b'],
    ['that is empty', 'data:\n\n', ''],
    ['that is a space', 'data: \n\n', ''],
    ['without a colon', 'data\n\n', ''],
    ['of several lines', 'data: a\ndata:b\ndata\ndata:  c\n\n', 'a\nb\n\n c'],
    ['between other fields', 'event: data\nid: 1\ndata: x\nretry: 5\n\n', 'x'],
    ['beside comments', ': data: no\ndata: x\n:data\n\n', 'x'],
    ['with CRLF', 'data: x\r\ndata: y\r\n\r\n', 'x\ny'],
    ['with CR', 'data: x\rdata: y\r\r', 'x\ny'],
    ['beyond ASCII', 'data: Straße 東京 😀\n\n', 'Straße 東京 😀'],
    ['behind a byte order mark', '\ufeffdata: x\n\n', 'x'],
    ['on the line after a byte order mark', '\ufeff: c\ndata: x\n\n', 'x'],
  ])('is read %s', (_, text, data) => {
    expect(read(text)?.text).toBe(data)
  })

  test.each([
    ['a comment', ': data: x\n\n'],
    ['other fields', 'event: x\nid: data\n\n'],
    ['a field that begins like it', 'database: x\n\n'],
    ['a field that is part of it', 'dat: x\n\n'],
    ['a field in capitals', 'DATA: x\n\n'],
    ['an indented field', ' data: x\n\n'],
    ['a blank line', '\n'],
    ['a byte order mark that is not the first thing in the stream', 'data: x\n\n\ufeffdata: x\n\n'],
    ['two byte order marks', '\ufeff\ufeffdata: x\n\n'],
  ])('is not there in %s', (_, text) => {
    expect(read(text)).toBeUndefined()
  })

  test('is where its spans say', () => {
    const text = '\ufeffdata: ab\r\nevent: e\r\ndata:c\r\ndata\r\n\r\n'
    const { spans } = read(text)!
    const values: string[] = []
    for (let i = 0; i < spans.length; i += 2) values.push(Buffer.from(text).toString('utf8', spans[i], spans[i + 1]))
    expect(values).toEqual(['ab', 'c', ''])
  })
})
