import { describe, expect, test } from 'vitest'
import { spliceUsage } from '../../test/support/llm/splice-usage.ts'
import { pushed } from '../../test/support/llm/sse-pieces.ts'
import { readEventData, SseFraming } from './sse-framing.ts'

const USAGE = '{"total_tokens":1}'

/** The event with usage put into it, by what its JSON has already. */
function splice(event: string): string {
  const bytes = Buffer.from(event)
  const data = readEventData(pushed(new SseFraming(1 << 20), bytes)[0]!)!
  return spliceUsage(bytes, data.spans, USAGE, JSON.parse(data.text).usage).toString()
}

describe('usage', () => {
  test.each([
    ['after the last field', 'data: {"a":1}\n\n', `data: {"a":1,"usage":${USAGE}}\n\n`],
    ['into an empty object', 'data: {}\n\n', `data: {"usage":${USAGE}}\n\n`],
    ['into an object of white space', 'data: { \t }\n\n', `data: { \t "usage":${USAGE}}\n\n`],
    ['after an empty object in the last field', 'data: {"a":{}}\n\n', `data: {"a":{},"usage":${USAGE}}\n\n`],
    ['after a list', 'data:{"a":[{}]}\r\n\r\n', `data:{"a":[{}],"usage":${USAGE}}\r\n\r\n`],
    ['after a text with a brace', 'data: {"a":"}{"}\n\n', `data: {"a":"}{","usage":${USAGE}}\n\n`],
    ['before white space at the end', 'data: {"a":1 } \n\n', `data: {"a":1 ,"usage":${USAGE}} \n\n`],
    ['into data of several lines', 'data: {\ndata: "a":1\ndata: }\n\n', `data: {\ndata: "a":1\ndata: ,"usage":${USAGE}}\n\n`],
    ['into an empty object of several lines', 'data: {\ndata:\ndata: }\n\n', `data: {\ndata:\ndata: "usage":${USAGE}}\n\n`],
    ['before empty lines', 'data: {"a":1}\ndata:\ndata\n\n', `data: {"a":1,"usage":${USAGE}}\ndata:\ndata\n\n`],
    ['before other fields and an empty line', 'data: {"a":1}\nid: }\ndata:\n\n', `data: {"a":1,"usage":${USAGE}}\nid: }\ndata:\n\n`],
    [
      'between other fields of the event',
      'id: {}\ndata: {"a":1}\nid: }\n: }\n\n',
      `id: {}\ndata: {"a":1,"usage":${USAGE}}\nid: }\n: }\n\n`,
    ],
    ['behind a byte order mark', '\ufeffdata: {"a":1}\n\n', `\ufeffdata: {"a":1,"usage":${USAGE}}\n\n`],
    ['behind text beyond ASCII', 'data: {"a":"Straße 😀","ü":"東京"}\n\n', `data: {"a":"Straße 😀","ü":"東京","usage":${USAGE}}\n\n`],
    ['beside a nested usage', 'data: {"a":{"usage":null}}\n\n', `data: {"a":{"usage":null},"usage":${USAGE}}\n\n`],
    ['beside a text of that name', 'data: {"a":"usage"}\n\n', `data: {"a":"usage","usage":${USAGE}}\n\n`],
  ])('is put %s', (_, event, expected) => {
    expect(splice(event)).toBe(expected)
  })

  test.each([
    ['at the end', 'data: {"a":1,"usage":null}\n\n', `data: {"a":1,"usage":${USAGE}}\n\n`],
    ['in the middle', 'data: {"usage":null,"a":1}\n\n', `data: {"usage":${USAGE},"a":1}\n\n`],
    ['with white space around', 'data: {"usage" :\t null , "a":1}\n\n', `data: {"usage" :\t ${USAGE} , "a":1}\n\n`],
    ['on a line of its own', 'data: {"usage":\r\ndata: null\r\ndata: }\r\n\r\n', `data: {"usage":\r\ndata: ${USAGE}\r\ndata: }\r\n\r\n`],
    ['behind a nested one', 'data: {"a":{"usage":null},"usage":null}\n\n', `data: {"a":{"usage":null},"usage":${USAGE}}\n\n`],
    ['before a nested one', 'data: {"usage":null,"a":{"usage":null}}\n\n', `data: {"usage":${USAGE},"a":{"usage":null}}\n\n`],
    ['before one in a list', 'data: {"usage":null,"a":[{"usage":null}]}\n\n', `data: {"usage":${USAGE},"a":[{"usage":null}]}\n\n`],
    ['behind other nulls', 'data: {"a":null,"usage":null,"b":null}\n\n', `data: {"a":null,"usage":${USAGE},"b":null}\n\n`],
    ['behind a text of that name', 'data: {"a":"usage","b":null,"usage":null}\n\n', `data: {"a":"usage","b":null,"usage":${USAGE}}\n\n`],
    ['before a text of that name', 'data: {"usage":null,"a":"usage","b":null}\n\n', `data: {"usage":${USAGE},"a":"usage","b":null}\n\n`],
    [
      'behind a text with escapes',
      'data: {"a":"\\"usage\\":null\\\\","usage":null}\n\n',
      `data: {"a":"\\"usage\\":null\\\\","usage":${USAGE}}\n\n`,
    ],
    ['behind a text with brackets', 'data: {"a":"}]{[","usage":null}\n\n', `data: {"a":"}]{[","usage":${USAGE}}\n\n`],
    [
      'behind a field that ends the same',
      'data: {"my_usage":null,"usage":null,"usages":null}\n\n',
      `data: {"my_usage":null,"usage":${USAGE},"usages":null}\n\n`,
    ],
    ['behind text beyond ASCII', 'data: {"ü":"東京 😀","usage":null}\n\n', `data: {"ü":"東京 😀","usage":${USAGE}}\n\n`],
    ['behind a list', 'data: {"choices":[{"a":[1,{}]}],"usage":null}\n\n', `data: {"choices":[{"a":[1,{}]}],"usage":${USAGE}}\n\n`],
    ['the last of several', 'data: {"usage":null,"usage":null}\n\n', `data: {"usage":null,"usage":${USAGE}}\n\n`],
    [
      'but not in another field of the event',
      'id: {"usage":null}\ndata: {"usage":null}\n\n',
      `id: {"usage":null}\ndata: {"usage":${USAGE}}\n\n`,
    ],
  ])('takes the place of null %s', (_, event, expected) => {
    expect(splice(event)).toBe(expected)
  })

  test('leaves the spelling of numbers, unknown fields and the order of keys as they were', () => {
    const json = '{"z":1.0,"a":1e3,"big":12345678901234567890,"x-new":{"k":[true,null]},"2":0,"1":-0.0,"esc":"\\u00e9\\/"}'
    expect(splice(`data: ${json}\n\n`)).toBe(`data: ${json.slice(0, -1)},"usage":${USAGE}}\n\n`)
  })
})
