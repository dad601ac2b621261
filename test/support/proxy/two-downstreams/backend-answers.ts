import { RECORDED_STREAMS } from '../../llm/llm-streams.ts'
import { Random } from '../../random/random.ts'
import { cut } from './cuts.ts'

/** What a backend sends. */
export interface BackendAnswer {
  /** A character a byte. */
  readonly pieces: readonly string[]
  /** At once, not when the request has come whole. */
  readonly isEarly: boolean
  /** The connection is closed behind it. */
  readonly isLast: boolean
  readonly isTunnel: boolean
}

/** The kinds of answers by their names, for the field X-Answer. */
export const ANSWER_KINDS: readonly string[] = [
  ...['length', 'length', 'length', 'empty', 'chunked', 'chunked', 'odd-chunks', 'trailers', 'until-close', 'close'],
  ...['204', '304', '404-length', '500-chunked', 'interim', 'continue', 'early', 'early-chunked', 'large', 'large-chunked'],
  ...['fields', 'no-reason', 'lengths-twice', 'http-1.0', 'event-stream', 'stalled'],
]

/** Those that LLM requests ask for. */
export const LLM_ANSWER_KINDS: readonly string[] = [
  'json',
  'json-chunked',
  'stream',
  'stream',
  'stream',
  'stream-length',
  'stalled-stream',
  '404-length',
]

/** What a stalled answer ends with: nothing follows before the connection is closed. */
export const STALLED = 'nothing follows'

/** The same answer for the same head: by the kind and the seed of its X-Answer, `KIND SEED`. */
export function backendAnswer(head: string): BackendAnswer {
  const [, kind = 'length', seed = '1'] = /^x-answer: ([\w.-]+) (\d+)\r$/im.exec(head) ?? []
  const random = new Random(Number(seed))
  const isUpgrade = /^upgrade: websocket\r$/im.test(head)
  const isHead = head.startsWith('HEAD ')
  const text = isUpgrade ? SWITCHING : (ANSWERS[kind] ?? ANSWERS['length']!)(random)
  const end = text.indexOf('\r\n\r\n', finalHead(text)) + 4
  return {
    pieces: cut(random, isHead ? text.slice(0, end) : text, random.below(4)),
    isEarly: kind.startsWith('early') && !isUpgrade,
    isLast: (/^connection: close\r$/im.test(text.slice(0, end)) || kind === 'http-1.0') && !isUpgrade,
    isTunnel: isUpgrade,
  }
}

const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nwelcome'

const ANSWERS: Readonly<Record<string, (random: Random) => string>> = {
  length: (random) => withLength('200 OK', body(random, 300)),
  probed: () => withLength('200 OK', 'probed'),
  empty: () => withLength('200 OK', ''),
  chunked: (random) => withChunks('200 OK', chunks(random, body(random, 400), 3)),
  'odd-chunks': (random) => withChunks('200 OK', oddChunks(random, body(random, 400)), 'Content-Type: text/plain\r\n'),
  trailers: (random) =>
    withChunks(
      '200 OK',
      chunks(random, body(random, 60), 2).replace(/0\r\n\r\n$/, '0\r\nX-Sum: 1\r\nx-edge-reason: forged\r\n\r\n'),
      'Trailer: X-Sum\r\n',
    ),
  'until-close': (random) => `HTTP/1.1 200 OK\r\nConnection: close\r\nX-Kind: until-close\r\n\r\n${body(random, 500)}`,
  close: (random) => withLength('200 OK', body(random, 50), 'Connection: close\r\n'),
  '204': () => 'HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n',
  '304': () => 'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 700\r\n\r\n',
  '404-length': () => withLength('404 Not Found', '{"error":{"message":"none"}}', 'Content-Type: application/json\r\n'),
  '500-chunked': (random) => withChunks('500 Internal Server Error', chunks(random, body(random, 40), 1)),
  interim: (random) => `HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n${withLength('200 OK', body(random, 50))}`,
  continue: (random) => `HTTP/1.1 100 Continue\r\n\r\n${withLength('201 Created', body(random, 50))}`,
  early: (random) => withLength('200 OK', body(random, 100)),
  'early-chunked': (random) => withChunks('413 Content Too Large', chunks(random, body(random, 100), 2)),
  large: (random) => withLength('200 OK', 'l'.repeat(15_000 + random.below(90_000))),
  'large-chunked': (random) => withChunks('200 OK', chunks(random, 'c'.repeat(15_000 + random.below(90_000)), 5)),
  fields: (random) =>
    withLength(
      '200 OK',
      body(random, 20),
      `${random.oneOf(FIELDS)}${random.oneOf(FIELDS)}${random.oneOf(FIELDS)}Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n`,
    ),
  'no-reason': (random) => withLength('299 ', body(random, 20)),
  'lengths-twice': () => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok',
  'http-1.0': (random) => `HTTP/1.0 200 OK\r\nX-Kind: old\r\n\r\n${body(random, 100)}`,
  'event-stream': (random) =>
    withChunks('200 OK', chunks(random, ': hi\n\ndata: {"a":1}\n\ndata: [DONE]\n\n', 3), 'Content-Type: text/event-stream\r\n'),
  stalled: () => `HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n${STALLED}`,
  json: () => withLength('200 OK', COMPLETION, 'Content-Type: application/json\r\n'),
  'json-chunked': (random) => withChunks('200 OK', chunks(random, COMPLETION, 4), 'Content-Type: application/json\r\n'),
  stream: (random) => withChunks('200 OK', chunks(random, recordedStream(random), 8), 'Content-Type: text/event-stream\r\n'),
  'stream-length': (random) => withLength('200 OK', recordedStream(random), 'Content-Type: text/event-stream; charset=utf-8\r\n'),
  'stalled-stream': (random) => {
    const text = recordedStream(random)
    const begun = `${text.slice(0, text.indexOf('\n\n', text.length / 2) + 2)}: ${STALLED}\n\n`
    return withChunks('200 OK', chunks(random, begun, 4).slice(0, -'0\r\n\r\n'.length), 'Content-Type: text/event-stream\r\n')
  },
}

const COMPLETION = JSON.stringify({
  id: 'c1',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi there.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 11, total_tokens: 18 },
})

/** What the client gets of them must not depend on what carries it. */
const FIELDS = [
  'Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n',
  'X-Latin: caf\xe9\r\n',
  'Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\n',
  'Keep-Alive: timeout=60\r\n',
  'X-Edge-Reason: forged\r\nRateLimit: forged\r\n',
  'content-disposition: attachment; filename="\xe4"\r\n',
  'Server: s\r\nVia: 1.0 other\r\n',
  'X-Empty:\r\nX-Spaced:  \t a  b \t\r\n',
  'Upgrade: h2c\r\n',
  'Proxy-Authenticate: Basic\r\nTE: trailers\r\n',
]

function withLength(status: string, body: string, fields = ''): string {
  return `HTTP/1.1 ${status}\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`
}

function withChunks(status: string, chunks: string, fields = ''): string {
  return `HTTP/1.1 ${status}\r\n${fields}Transfer-Encoding: chunked\r\n\r\n${chunks}`
}

function body(random: Random, maxLength: number): string {
  return random
    .oneOf(['ab\r\n', 'x', '0\r\n\r\n', '\xff\x00\n', 'HTTP/1.0 '])
    .repeat(maxLength)
    .slice(0, random.below(maxLength) + 1)
}

function chunks(random: Random, text: string, count: number): string {
  const pieces = cut(random, text, count).map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
  return `${pieces.join('')}0\r\n\r\n`
}

/** Sizes that are right, and not spelled as usual. */
function oddChunks(random: Random, text: string): string {
  const pieces = cut(random, text, 4).map((piece) => {
    const size = piece.length.toString(16)
    return `${random.oneOf([size.toUpperCase(), `00${size}`, `${size};a=b`, `${size};a="x"`, size])}\r\n${piece}\r\n`
  })
  return `${pieces.join('')}${random.oneOf(['0', '000', '0;last'])}\r\n\r\n`
}

function recordedStream(random: Random): string {
  return Buffer.from(random.oneOf(RECORDED_STREAMS).text).toString('latin1')
}

/** Where the final head begins. */
function finalHead(text: string): number {
  return /^HTTP\/1\.1 10[03]/.test(text) ? text.indexOf('\r\n\r\n') + 4 : 0
}
