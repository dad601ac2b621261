import { METHODS } from 'node:http'
import { jwt } from '../../bundles/bundles.ts'
import type { Random } from '../../random/random.ts'
import { ANSWER_KINDS, LLM_ANSWER_KINDS } from './backend-answers.ts'
import { cut } from './cuts.ts'

export interface GeneratedRequest {
  readonly method: string
  /** A character a byte. */
  readonly text: string
  /** Its answer is the last on its connection, or there is none. */
  readonly isLast: boolean
}

/** A request that every reader understands in the same way, and no two of which are alike: order, spelling, framing and more are left to chance. */
export function validRequest(random: Random, caller: string): GeneratedRequest {
  const isLlm = random.below(5) === 0
  const isOdd = random.below(6) === 0
  const method = isLlm ? 'POST' : random.oneOf(USUAL_METHODS)
  const kind = random.oneOf((isLlm ? LLM_ANSWER_KINDS : ANSWER_KINDS).filter((name) => !name.startsWith('stalled')))
  const fields = [
    field(random, 'Host', random.oneOf(HOSTS)),
    field(random, 'X-Api-Key', random.below(12) === 0 ? `${caller}-2` : caller),
    `${spelled(random, 'X-Answer')}: ${kind} ${random.below(1e6)}\r\n`,
    ...Array.from({ length: random.below(4) }, () => extraField(random)),
    ...(isOdd ? [random.oneOf(ODD_FIELDS)] : []),
  ]
  const [framing, body] = isLlm ? framed(random, llmBody(random)) : random.below(3) === 0 ? framed(random, plainBody(random)) : ['', '']
  if (framing !== '') fields.push(framing)
  const target = isLlm ? random.oneOf(LLM_TARGETS) : method === 'OPTIONS' && random.below(3) === 0 ? '*' : random.oneOf(TARGETS)
  const head = `${method} ${isOdd && random.below(5) === 0 ? absolute(fields, target) : target} HTTP/1.1\r\n${shuffled(random, fields).join('')}\r\n`
  return { method, text: head + body, isLast: /^connection:.*close/im.test(head) }
}

/** A request whose answer begins and does not end. */
export function stalledRequest(random: Random, caller: string): GeneratedRequest {
  const isLlm = random.below(2) === 0
  const [framing, body] = isLlm ? framed(random, llmBody(random)) : ['', '']
  const start = isLlm ? `POST ${random.oneOf(LLM_TARGETS)}` : 'GET /stalled'
  const kind = isLlm ? 'stalled-stream' : 'stalled'
  const fields = `Host: edge\r\nX-Api-Key: ${caller}\r\nX-Answer: ${kind} ${random.below(1e6)}\r\n${framing}`
  return { method: 'GET', text: `${start} HTTP/1.1\r\n${fields}\r\n${body}`, isLast: true }
}

const USUAL_METHODS = [
  'GET',
  'GET',
  'GET',
  'POST',
  'POST',
  'HEAD',
  'PUT',
  'DELETE',
  'OPTIONS',
  'PATCH',
  ...METHODS.filter((name) => name !== 'CONNECT'),
]

const HOSTS = ['edge', 'edge', 'edge', 'a.example.com', 'A.Example.com:80', 'edge:8080', '[::1]:80', '127.0.0.1']

const TARGETS = [
  ...['/', '/', '/a', '/api/x?y=1', '/api/x?y=%31', '/api/%78?y=1&y=2', '/%61pi', '//api', '/x/../api/', '/api?', '/?y=1', '/blocked/x'],
  ...[
    '/a?b=c;d|e`{}"<>^\\',
    '/a%00b',
    '/a%',
    "/~!$&'()*+,;=:@-._",
    `/${'long/'.repeat(60)}`,
    '/livez',
    '/readyz',
    '/livez?x',
    '/Livez',
    '/v1/models',
  ],
]

const LLM_TARGETS = ['/v1/chat/completions', '/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages', '/v1/embeddings']

function extraField(random: Random): string {
  const [name, ...values] = random.oneOf(EXTRA_FIELDS)
  return field(random, name!, random.oneOf(values))
}

const EXTRA_FIELDS: readonly (readonly string[])[] = [
  ['X-Team', 'a', 'b', '', 'a, b', '\xe9\xff\x80'],
  ['X-Forwarded-For', '203.0.113.9', '203.0.113.9, 10.0.0.1', 'unknown', ''],
  ['X-Forwarded-Host', 'other'],
  ['Cookie', 'a=1', 'a="1"; b=2', 'a=2; a=3', 'b=2', ''],
  ['Connection', 'keep-alive', 'Keep-Alive', 'keep-alive'],
  ['Authorization', `Bearer ${jwt({ sub: 'a' })}`, 'Bearer x', 'BEARER  x', 'Bearer x y', 'Bearer', 'Basic YTpi'],
  ['Accept', '*/*', 'text/event-stream'],
  ['Accept-Encoding', 'gzip, br', 'identity'],
  ['Content-Type', 'application/json', 'text/plain'],
  ['X-Edge-Debug-Secret', 'guess'],
  ['Via', '1.0 someone'],
  ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
  ['X-Long', 'v'.repeat(3000)],
  ['X-Empty', ''],
  ['If-None-Match', '"a", "b"'],
  ["!#$%&'*+-.^_`|~9", 'a token'],
]

/** Legal, and for one reason or another not plain. */
const ODD_FIELDS = [
  'Connection: close\r\n',
  'connection: Close, keep-alive\r\n',
  'Connection: x-team\r\n',
  'Connection: keep-alive, x-team\r\n',
  'Connection: keep-alive\r\nConnection: x-a\r\n',
  'Connection: TE\r\nTE: trailers\r\n',
  'TE: trailers\r\n',
  'TE: gzip;q=0.5, trailers\r\n',
  'Trailer: X-Sum\r\n',
  'Expect: 100-continue\r\n',
  'Expect: 200-ok\r\n',
  'Upgrade: h2c\r\n',
  'Connection: Upgrade\r\nUpgrade: nonsense\r\n',
  'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n',
  'Upgrade: websocket\r\n',
  'Keep-Alive: timeout=1\r\n',
  'Proxy-Connection: close\r\n',
  'Content-Length: 0\r\n',
  'X-Tab:\ta\tb\t\r\n',
  'X-Wide:    wide   \r\n',
  'X-None:\r\n',
  'X-Team: a\r\nX-Team: b\r\n',
  'X-Api-Key: second\r\n',
  'X-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 2.2.2.2\r\n',
]

function field(random: Random, name: string, value: string): string {
  return `${spelled(random, name)}:${random.oneOf([' ', ' ', ' ', '', '  ', '\t'])}${value}${random.oneOf(['', '', '', ' ', '\t '])}\r\n`
}

function spelled(random: Random, name: string): string {
  return random.oneOf([name, name, name.toLowerCase(), name.toUpperCase()])
}

/** A body with a length or in chunks: the field that frames it, and its bytes. */
function framed(random: Random, body: string): [framing: string, bytes: string] {
  if (random.below(2) === 0) return [`${spelled(random, 'Content-Length')}: ${random.below(9) === 0 ? '0' : ''}${body.length}\r\n`, body]
  const pieces = cut(random, body, random.below(5)).map((piece) => chunk(random, piece))
  const end =
    random.below(5) === 0
      ? random.oneOf(['00\r\n\r\n', '0;x\r\n\r\n', '0\r\nX-Sum: 1\r\n\r\n', '0\r\nX-A: b\r\nx-api-key: t\r\n\r\n'])
      : '0\r\n\r\n'
  return [
    `${spelled(random, 'Transfer-Encoding')}: ${random.oneOf(['chunked', 'chunked', 'Chunked', 'CHUNKED'])}\r\n`,
    pieces.join('') + end,
  ]
}

function chunk(random: Random, bytes: string): string {
  const size = bytes.length.toString(16)
  const spelledSize =
    random.below(3) > 0 ? size : random.oneOf([size.toUpperCase(), `0${size}`, `000${size}`, `${size};a`, `${size};a=b;c="d e"`])
  return `${spelledSize}\r\n${bytes}\r\n`
}

function plainBody(random: Random): string {
  const text = random.oneOf(['body ', '\r\n\r\n', '0\r\n\r\n', 'GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n', '\0\xff', 'x'])
  return text.repeat(random.below(random.below(20) === 0 ? 3000 : 30))
}

function llmBody(random: Random): string {
  const messages = [{ role: 'user', content: 'hello '.repeat(1 + random.below(20)) }]
  const stream = random.below(3) > 0
  const more = random.oneOf([{}, { max_tokens: 20 }, { max_tokens: 5 }, { stream_options: { include_usage: true } }, { model: 'small-1' }])
  const body = JSON.stringify({ model: 'big', messages, input: 'hello', prompt: 'hi', stream, ...more })
  return random.below(12) === 0 ? body.slice(0, random.below(body.length)) : body
}

function absolute(fields: readonly string[], target: string): string {
  const host = /^host:\s*(\S*)/i.exec(fields[0]!)![1]!
  return target.startsWith('/') ? `http://${host}${target}` : target
}

function shuffled<Item>(random: Random, list: readonly Item[]): Item[] {
  const items = [...list]
  for (let i = items.length - 1; i > 0; i--) {
    const other = random.below(i + 1)
    ;[items[i], items[other]] = [items[other]!, items[i]!]
  }
  return items
}
