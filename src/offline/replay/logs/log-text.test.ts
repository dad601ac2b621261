import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LogText } from './log-text.ts'

const TIME = '2026-01-02T15:04:05Z'
const MS = Date.parse(TIME)

interface Read {
  readonly requests: object[]
  readonly unreadable: string[]
}

/** Cut into pieces at these places. `text` is in UTF-8. */
function read(text: string | Buffer, cuts: readonly number[] = []): Read {
  const bytes = Buffer.from(text as string).toString('latin1')
  const found: Read = { requests: [], unreadable: [] }
  const log = new LogText({
    onRequest: ({ timeMs, method, uri, host, peer, fields, body }) =>
      found.requests.push({ timeMs, method, uri, host, peer, fields: [...fields], body }),
    onUnreadable: (place, why) => found.unreadable.push(`${place}: ${why}`),
  })
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  for (let i = 1; i < places.length; i++) log.push(bytes.slice(places[i - 1], places[i]))
  log.end()
  return found
}

const PLAIN = { timeMs: MS, method: 'GET', uri: '/x', host: '', peer: undefined, fields: [], body: undefined }

describe('lines of JSON', () => {
  test.each([
    ['our own', { time: TIME, method: 'GET', uri: '/x' }, PLAIN],
    [
      'our own, with all there is',
      {
        time: TIME,
        method: 'POST',
        uri: '/x',
        host: 'a.example',
        client: '203.0.113.7',
        headers: { 'X-K': 'a', n: ['1', '2'] },
        body: 'b',
      },
      { ...PLAIN, method: 'POST', host: 'a.example', peer: '203.0.113.7', fields: ['X-K', 'a', 'n', '1', 'n', '2'], body: 'b' },
    ],
    ["with characters as a server reads a client's bytes", { time: TIME, method: 'GET', uri: '/\xe9' }, { ...PLAIN, uri: '/\xe9' }],
    ['with members that nobody knows', { time: TIME, method: 'GET', uri: '/x', status: 200, extra: { deep: [1] } }, PLAIN],
    ['with a number for the time', { time: MS / 1000, method: 'GET', uri: '/x' }, PLAIN],
    [
      'with values of other types',
      { time: TIME, method: 'GET', uri: '/x', host: 1, client: {}, headers: { a: 1, b: [2], c: null } },
      PLAIN,
    ],
    ['with a client that is no address', { time: TIME, method: 'GET', uri: '/x', client: 'unix:' }, PLAIN],
    [
      "with nginx's names",
      {
        time_iso8601: '2026-01-02T16:04:05+01:00',
        request_method: 'GET',
        request_uri: '/x',
        uri: '/normalised',
        host: 'a.example',
        remote_addr: '203.0.113.7',
        http_x_api_key: 'k',
        http_referer: '-',
        http_cookie: '',
        status: '200',
      },
      { ...PLAIN, host: 'a.example', peer: '203.0.113.7', fields: ['x-api-key', 'k'] },
    ],
    [
      "with nginx's msec, which is the most exact",
      { time_iso8601: TIME, msec: `${(MS + 7) / 1000}`, request_method: 'GET', request_uri: '/x' },
      { ...PLAIN, timeMs: MS + 7 },
    ],
    [
      "with nginx's request line",
      { time_local: '02/Jan/2026:15:04:05 +0000', request: 'GET /x HTTP/1.1', http_host: 'a.example' },
      { ...PLAIN, host: 'a.example', fields: ['host', 'a.example'] },
    ],
  ])('%s', (_, line, expected) => {
    expect(read(`${JSON.stringify(line)}\n`)).toEqual({ requests: [expected], unreadable: [] })
  })

  test("nginx's values keep their bytes, and its escapes that JSON does not know are read", () => {
    const text = `{"time_iso8601":"${TIME}","request_method":"GET","request_uri":"/x","http_x_k":"é\\x22\\xE9"}\n`
    expect(read(text).requests).toEqual([{ ...PLAIN, fields: ['x-k', '\xc3\xa9"\xe9'] }])
  })

  test.each([
    ['it is not valid JSON', '{"time":'],
    ['it is not valid JSON', '{"a":"\\x4"}'],
    ['its time is missing or cannot be read', '{}'],
    ['its time is missing or cannot be read', '{"time":"noon","method":"GET","uri":"/"}'],
    ['its time is missing or cannot be read', '{"time":true,"method":"GET","uri":"/"}'],
    ['it has no request (method and uri)', `{"time":"${TIME}"}`],
    ['it has no request (method and uri)', `{"time":"${TIME}","method":"GET","uri":7}`],
    ['it has no request (method and uri)', `{"time":"${TIME}","request":"-","status":"400"}`],
    ['it has no request (method and uri)', `{"__proto__":{"method":"GET","uri":"/"},"time":"${TIME}"}`],
    ['neither the combined format nor JSON', '[]'],
    ['neither the combined format nor JSON', 'null'],
    ['neither the combined format nor JSON', '\0\0\0'],
    ['neither the combined format nor JSON', '\ufffd\ufffd'],
  ])('%s: %s', (why, line) => {
    expect(read(line)).toEqual({ requests: [], unreadable: [`1: ${why}`] })
  })

  test('one that is nested deeply, or longer than 1 MiB, does no harm', () => {
    const deep = `{"a":${'['.repeat(250_000)}${']'.repeat(250_000)}}`
    const long = `{"a":"${'x'.repeat(2 ** 20)}"}`
    const good = `{"time":"${TIME}","method":"GET","uri":"/x"}`
    const { requests, unreadable } = read(`${deep}\n${long}\n${good}\n${long}`)
    expect(requests).toEqual([PLAIN])
    expect(unreadable).toEqual([expect.stringMatching(/^1: /), '2: it is longer than 1 MiB', '4: it is longer than 1 MiB'])
  })
})

const MIXED = `\ufeff{"time":"${TIME}","method":"GET","uri":"/é"}\r\n\n  \t\n203.0.113.7 - - [02/Jan/2026:15:04:05 +0000] "GET /y HTTP/1.1" 200 5 "-" "é"\nnonsense\n{"time":"${TIME}","method":"GET","uri":"/last"}`

const HAR = `{ "log" : {"version":"1.2","creator":{"name":"entries","entries":[{}]},"comment":"\\"entries\\": [",
  "entries":[
    {"startedDateTime":"2026-01-02T16:04:05.000+01:00","request":{"method":"GET","url":"https://user@a.example:8443/x?é=[1]#part",
      "headers":[{"name":":path","value":"/x"},{"name":"X-K","value":"é{"},{"name":"x-n"},null]},"response":{"content":{"text":"]}\\"\\\\"}}},
    {"startedDateTime":"${TIME}","request":{"method":"POST","url":"http://b.example?q","headers":[],"postData":{"text":"{\\"a\\":\\"é\\"}"}}},
    {"startedDateTime":"${TIME}","request":{"method":"GET","url":"data:text/plain,x"}},
    {"startedDateTime":"later","request":{}},
    {}, []
  ],"pages":[{"startedDateTime":"${TIME}"}]}}`

test('a HAR document', () => {
  expect(read(HAR)).toEqual({
    requests: [
      { ...PLAIN, uri: '/x?\xc3\xa9=[1]', host: 'a.example:8443', fields: ['X-K', '\xc3\xa9{'] },
      { ...PLAIN, method: 'POST', uri: '/?q', host: 'b.example', body: '{"a":"é"}' },
    ],
    unreadable: [
      'entry 3: it has no request (method and http url)',
      'entry 4: its startedDateTime is missing or cannot be read',
      'entry 5: its startedDateTime is missing or cannot be read',
      'entry 6: its startedDateTime is missing or cannot be read',
    ],
  })
})

test('a HAR document that ends in the middle says so, and its entries until then count', () => {
  const { requests, unreadable } = read(HAR.slice(0, HAR.indexOf('data:text')))
  expect(requests).toHaveLength(2)
  expect(unreadable).toEqual(['end: the document ends in the middle'])
})

test('entries beyond 16 MiB are not kept', () => {
  const [start, end] = [`{"log":{"entries":[{"x":"`, `"},{"startedDateTime":"${TIME}","request":{"method":"GET","url":"http://a/x"}}]}}`]
  const { requests, unreadable } = read(start + 'x'.repeat(17 * 1024 ** 2) + end)
  expect(requests).toEqual([{ ...PLAIN, host: 'a' }])
  expect(unreadable).toEqual(['entry 1: its entry is longer than 16 MiB'])
})

test.each([
  ['lines', MIXED],
  ['a HAR document', HAR],
])('%s are the same however they are cut', (_, text) => {
  const whole = read(text)
  expect(whole.requests.length).toBeGreaterThan(1)
  fc.assert(fc.property(fc.array(fc.nat(2000), { maxLength: 20 }), (cuts) => void expect(read(text, cuts)).toEqual(whole)))
  const everywhere = Array.from({ length: Buffer.byteLength(text) }, (_x, i) => i)
  expect(read(text, everywhere)).toEqual(whole)
})

test('any bytes are read without an error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.constantFrom('', '{"log":{', '{"log":{"entries":[', '{"time":'), (bytes, start) => {
      read(Buffer.concat([Buffer.from(start), bytes]))
    }),
  )
})
