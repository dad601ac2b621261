// What reads bytes of clients, backends and bundles, on texts that are as bad for it as we could think of.

import { askedByQuery, counterName } from '../../../dist/admin/api/counter-name.js'
import { readNames, readSince } from '../../../dist/admin/endpoints/events-endpoints.js'
import { readAskedRequest } from '../../../dist/admin/endpoints/explain-endpoint.js'
import { readBundle } from '../../../dist/bundle/bundle-reader.js'
import { parseCompactJws } from '../../../dist/callers/jwt/compact-jws.js'
import { IssuerEntry } from '../../../dist/callers/jwt/issuer-entry.js'
import { readKeySet } from '../../../dist/callers/jwt/key-set.js'
import { rememberedBytes } from '../../../dist/callers/jwt/token-memory.js'
import { encodedStatusMessage } from '../../../dist/doors/grpc/call-head.js'
import { ExtAuthzRequest } from '../../../dist/doors/grpc/ext-authz-request.js'
import { FrameReader } from '../../../dist/doors/grpc/http2/frame-reader.js'
import { HpackDecoder } from '../../../dist/doors/grpc/http2/hpack-decoder.js'
import { RequestHead } from '../../../dist/doors/grpc/http2/request-head.js'
import { RateLimitRequestReader } from '../../../dist/doors/grpc/rate-limit-request.js'
import { readSettlement } from '../../../dist/doors/settlement-request.js'
import { fieldValue } from '../../../dist/http1/header-fields.js'
import { endpointOf, plainModel } from '../../../dist/llm/endpoints.js'
import { FormRequestReader } from '../../../dist/llm/form-request.js'
import { LargeEvent } from '../../../dist/llm/large-event.js'
import { LlmRequestReader } from '../../../dist/llm/llm-request.js'
import { LlmResponseReader } from '../../../dist/llm/llm-response.js'
import { withModel } from '../../../dist/llm/replace-model.js'
import { SseFraming } from '../../../dist/llm/sse-framing.js'
import { StreamFilter } from '../../../dist/llm/stream-filter.js'
import { readCases } from '../../../dist/offline/cases/read-cases.js'
import { LogText } from '../../../dist/offline/replay/logs/log-text.js'
import { normalizeHost, PathPrefixes } from '../../../dist/policy/patterns.js'
import { ResponseReader } from '../../../dist/proxy/backend/response-reader.js'
import { ProxiedRequest, ProxiedRequestView } from '../../../dist/proxy/proxied-request.js'
import { ChunkedFrames } from '../../../dist/proxy/wire/chunked-frames.js'
import { RequestHeadReader } from '../../../dist/proxy/wire/request-head-reader.js'
import { UnreadBytes } from '../../../dist/proxy/wire/unread-bytes.js'
import { bearerToken, readClaims } from '../../../dist/request/bearer.js'
import { CidrMap } from '../../../dist/request/cidr-map.js'
import { clientAddress, TrustedProxies } from '../../../dist/request/client-address.js'
import { cookieValue, pathSegment, queryValue } from '../../../dist/request/encoded-values.js'
import { openToken } from '../../../dist/reservations/reservations.js'
import { parseHeaderTemplate } from '../../../dist/secrets/header-template.js'
import { readSecretText } from '../../../dist/secrets/secret-value.js'
import { DebugSessions } from '../../../dist/sessions/debug-sessions.js'
import { withoutSessionCookies } from '../../../dist/sessions/session-cookies.js'
import { isPlainPath, normalizePath } from '../../../dist/text/path.js'
import { chargedRulesIn, readUsageLine } from '../../../dist/usage-log/usage-reader.js'
import { UsageSums } from '../../../dist/usage-log/usage-sums.js'

const trusted = new TrustedProxies()
const sessions = new DebugSessions('a secret that is long', () => 0, { add() {}, has: () => false })
const sink = (relays) => ({ onInterim() {}, onHead() {}, relaysChunks: () => relays, onData() {}, onEnd() {} })

const fill = (unit, length) => unit.repeat(Math.ceil(length / unit.length)).slice(0, length)
const token = (claims) => () => readClaims(bearerToken(`Bearer e30.${Buffer.from(claims).toString('base64url')}.sig`))
const issuer = new IssuerEntry({
  ...{ name: 'a', issuer: 'a', audiences: ['a'], clock_skew_seconds: 0 },
  labels: { a: { claim: 'a.b.c', first: 'a*' }, b: { claim: 'b' } },
})
/** All that is done with a token but the signature, which is hashed once. */
const verified = (claims) => {
  const jws = `${Buffer.from('{"alg":"RS256"}').toString('base64url')}.${Buffer.from(claims).toString('base64url')}.AQ`
  return () => {
    const parsed = parseCompactJws(jws)
    if (parsed === undefined) return
    parsed.hasRepeatedName()
    issuer.problemOf(parsed.payload, 1)
    issuer.callerOf(parsed)
    rememberedBytes(parsed.payloadText)
  }
}
const jsonBundle = (data) => () => readBundle(Buffer.from(JSON.stringify(data)), 'json')
const yamlBundle = (text) => () => readBundle(Buffer.from(text), 'yaml')
const cases = (text) => () => readCases(text)
const list = (length, item) => Array.from({ length }, (_, i) => item(i))
const rule = (i) => ({
  name: `r${i}`,
  limit_keys: ['header:x'],
  algorithm: 'token_bucket',
  algorithm_config: { tokens_per_second: 1, burst: 1 },
})

const inWrongZone = (i) => ({ ...rule(i), algorithm: 'fixed_window', algorithm_config: { limit: 1, period: '1d', timezone: `Mars/M${i}` } })

const tables = (count) => Object.fromEntries(list(count, (i) => [`table-${i}`, { '*': { input: 1, output: 1 } }]))
const pricedBy = (name) => (i) => ({
  ...rule(i),
  algorithm: 'cost_budget',
  algorithm_config: { budget: 9, period: '1d', prices: name + i },
})
const [priced, mispriced] = [pricedBy('table-'), pricedBy('tabel-')]

/** One byte at a time. */
const response =
  (start, unit, relays = false) =>
  (length) =>
  () => {
    const reader = new ResponseReader()
    reader.begin('GET', false, sink(relays))
    reader.push(Buffer.from(start), 0, start.length)
    for (const byte of Buffer.from(fill(unit, length))) reader.push(Buffer.from([byte]), 0, 1)
    if (!reader.hasBegun) throw new Error('nothing was read')
  }
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const requestHead =
  (start, unit, end = '') =>
  (length) =>
  () => {
    const bytes = Buffer.from(`${start}${fill(unit, length)}${end}`)
    new RequestHeadReader().read(bytes, 0, bytes.length)
  }
/** One byte at a time. */
const requestChunks = (start, unit) => (length) => () => {
  const frames = new ChunkedFrames()
  frames.begin()
  for (const byte of Buffer.from(`${start}${fill(unit, length)}`)) {
    if (frames.isInData) frames.skipData(0, 1)
    else frames.skipFrame([byte], 0, 1)
  }
}
/** So many bytes at a time, of which so many are read at once. */
const unread = (added, read) => (length) => () => {
  const waiting = new UnreadBytes()
  const bytes = Buffer.alloc(added)
  for (let i = 0; i < length; i++) {
    waiting.add(bytes, 0, added)
    waiting.readTo(waiting.at + read)
  }
}
const framed = (unit) => (length) => () => {
  const framing = new SseFraming(2 ** 20)
  for (const byte of Buffer.from(fill(unit, length))) {
    framing.push(Buffer.from([byte]))
    while (framing.next()) {}
  }
}
const streamed = (unit) => (length) => () => {
  const filter = new StreamFilter({ rules: [], promptEstimate: 0, isActivated: true })
  for (const byte of Buffer.from(fill(unit, length))) filter.push(Buffer.from([byte]))
}
/** One byte at a time. */
const passing = (start, unit) => (length) => () => {
  const event = new LargeEvent()
  for (const byte of Buffer.from(`${start}${fill(unit, length)}`)) event.push(Buffer.from([byte]), 0, 1)
  event.end()
}
/** An event that comes in two pieces. */
const halved = (unit) => (length) => () => {
  const filter = new StreamFilter({ rules: [], promptEstimate: 0, isActivated: true })
  const bytes = Buffer.from(`data: {"choices":[{"delta":{"content":"${fill(unit, length)}"}}]}\n\n`)
  filter.push(bytes.subarray(0, -1))
  filter.push(bytes.subarray(-1))
}
const scanned = (Reader, start, unit, option) => (length) => () => {
  const reader = new Reader(option)
  for (const byte of Buffer.from(`${start}${fill(unit, length)}`)) reader.push(Buffer.from([byte]), 0, 1)
  reader.end()
}
/** A log, a few bytes at a time. */
const logged =
  (start, unit, end = '') =>
  (length) =>
  () => {
    const log = new LogText({ onRequest: ({ fields, uri, method }) => [fields, uri, method], onUnreadable() {} })
    const text = `${start}${fill(unit, length)}${end}`
    for (let at = 0; at < text.length; at += 7) log.push(text.slice(at, at + 7))
    log.end()
  }
/** A line of a usage log with this in it, as a report reads it and as a loss is counted. */
const usageLine =
  (start, unit, end = '') =>
  (length) =>
  () => {
    const text = `{"time":"2026-11-18T10:00:00.000Z",${start}${fill(unit, length)}${end}}`
    const line = readUsageLine(text)
    if (line !== undefined) new UsageSums(['rule', 'model', 'header:x'], undefined).add(line)
    chargedRulesIn(text)
  }
const LINE = '203.0.113.7 - - [02/Jan/2026:15:04:05 +0000] "GET /'
/** What an operator asks; it may be refused. */
const asked = (read) => (length) => () => {
  try {
    read(length)
  } catch {}
}
const explained = (part) => asked((length) => readAskedRequest({ method: 'GET', uri: '/', ...part(length) }))
const counted = (query) => asked((length) => counterName({ limitKeys: ['header:x'] }, askedByQuery(new URLSearchParams(query(length)))))
/** HPACK's numbers: seven bits a byte, the lowest first. */
const textLength = (rest) =>
  rest < 128 ? String.fromCharCode(rest) : String.fromCharCode((rest % 128) + 128) + textLength(Math.floor(rest / 128))

/** One byte at a time. */
const http2Frames = (unit) => (length) => () => {
  const reader = new FrameReader(() => 0)
  for (const byte of Buffer.from(`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${fill(unit, length)}`, 'latin1')) reader.read(Buffer.from([byte]), 1)
}
const headerBlock = (start, unit) => (length) => () => {
  const block = Buffer.from(`${start}${fill(unit, length)}`, 'latin1')
  new HpackDecoder().decode(block, 0, block.length, new RequestHead())
}
const llmRequest = (start, unit) => scanned(LlmRequestReader, start, unit)
const geminiRequest = (start, unit) => (length) => () => {
  const reader = new LlmRequestReader('utf8', endpointOf('/models/m:generateContent'))
  for (const byte of Buffer.from(`${start}${fill(unit, length)}`)) reader.push(Buffer.from([byte]), 0, 1)
  reader.end()
}
const remodelled = (target, start, unit, end) => (length) => () => {
  const body = Buffer.from(`${start}${fill(unit, length)}${end}`)
  const reader = new LlmRequestReader('utf8', endpointOf(target))
  reader.push(body, 0, body.length)
  withModel({ target, body, isPlain: true, llm: reader.end() }, 'm')
}
const upload = (boundary, start, unit) => scanned(FormRequestReader, start, unit, boundary)

/** A field of a Protocol Buffers message that has these bytes. */
const field = (number, bytes) => {
  const length = []
  for (let rest = bytes.length; ; rest = Math.floor(rest / 128)) {
    length.push(rest < 128 ? rest : (rest % 128) + 128)
    if (rest < 128) return Buffer.concat([Buffer.from([number * 8 + 2, ...length]), bytes])
  }
}
const entry = (name, value) => Buffer.concat([field(1, Buffer.from(name)), field(2, Buffer.from(value))])
/** A CheckRequest whose http has these bytes, of which a field is asked for. */
const checked = (http, name) => {
  const message = field(1, field(4, field(2, http)))
  return () => {
    const request = new ExtAuthzRequest()
    request.read(message)
    request.header(name)
  }
}

/** A call of the rate limit service with these bytes behind its domain. */
const limited = (bytes) => {
  const message = Buffer.concat([field(1, Buffer.from('d')), bytes])
  return () => {
    try {
      new RateLimitRequestReader().read(message)
    } catch {}
  }
}

export const readers = {
  'a model behind spaces': remodelled('/v1/completions', '{"model":', ' ', '"a"}'),
  'a model before much else': remodelled('/v1/completions', '{"model":"a","prompt":"', '\\"', '"}'),
  'many models': remodelled('/models/a:batchEmbedContents', '{"requests":[', '{"model":"a"},', '{}]}'),
  'a long path with a model': (length) => remodelled(`/${fill('openai/deployments/', length)}a/completions`, '{}', '', '')(0),
  'a header template of braces': (length) => () => parseHeaderTemplate(fill('{{', length)),
  'a header template of an open name': (length) => () => parseHeaderTemplate(`{${fill('A', length)}`),
  'a secret of spaces': (length) => () => readSecretText(Buffer.from(fill(' ', length))),
  'a secret of line ends': (length) => () => readSecretText(Buffer.from(fill('\r\n', length))),
  'a log of one line': logged('', 'a'),
  'a log of many lines': logged('', '\n'),
  'a line of backslashes': logged(LINE, '\\', '" 200 5 "-" "-"\n'),
  'a line of quotes': logged(LINE, '\\"', '" 200 5 "-" "-"\n'),
  'a line of fields': logged(LINE, '" "', '\n'),
  'a line of addresses': logged(`${LINE} HTTP/1.1" 200 5 "-" "-" "`, '1.1.1.1,', '"\n'),
  'a line of escapes': logged('{"a":"', '\\x41\\', '"}\n'),
  'a HAR of entries': logged('{"log":{"entries":[', '{},'),
  'a HAR of brackets': logged('{"log":{"entries":[', '['),
  'a HAR of one text': logged('{"log":{"entries":[{"a":"', '\\"\\\\', '"}]}}'),
  'a HAR of names': logged('{"log":{', '"entries":[],'),
  'a line of usage with many rules': usageLine('"rules":[', '{"policy":"p","rule":"r","tokens":1},', '{"policy":"p","rule":"r"}]'),
  'a line of usage with many names': usageLine('"rules":[],"labels":{', '"header:x":"a",', '"header:x":"a"}'),
  'a line of usage with one long value': usageLine('"rules":[{"policy":"p","rule":"r"}],"labels":{"header:x":"', '\\u0061\\"', '"}'),
  'a line of usage that is torn': usageLine('"rules":', '[{"policy":'),
  'a call of many descriptors': (length) => limited(Buffer.concat(list(length / 10, () => field(2, field(1, entry('b', 'c')))))),
  'a call of many entries': (length) => limited(field(2, Buffer.concat(list(length / 8, () => field(1, entry('b', 'c')))))),
  'a call of long entries': (length) =>
    limited(field(2, Buffer.concat(list(64, (i) => field(1, entry(fill(`${99 - i}`, length / 128), fill('v', length / 128))))))),
  'a call of empty descriptors': (length) => limited(Buffer.concat(list(length / 2, () => field(2, Buffer.alloc(0))))),
  'a call of fields that nobody reads': (length) => limited(field(2, Buffer.concat(list(length / 2, () => field(7, Buffer.alloc(0)))))),
  'a check of many fields': (length) => checked(Buffer.concat(list(length / 8, () => field(3, entry('b', 'c')))), 'a'),
  'a check of one field that comes often': (length) =>
    checked(field(13, Buffer.concat(list(length / 8, () => field(1, entry('cookie', 'b'))))), 'cookie'),
  'a check of a long field': (length) => checked(field(3, entry('a', fill(' ,', length))), 'a'),
  'a check of blanks': (length) => checked(field(3, entry('a', fill(' ', length))), 'a'),
  'a check of empty messages': (length) => checked(Buffer.concat(list(length / 2, () => field(13, Buffer.alloc(0)))), 'a'),
  'a check of fields that nobody reads': (length) => checked(Buffer.concat(list(length / 2, () => field(7, Buffer.alloc(0)))), 'a'),
  'the context of a check': (length) => {
    const message = field(1, Buffer.concat(list(length / 8, () => field(10, entry('b', 'c')))))
    return () => {
      const request = new ExtAuthzRequest()
      request.read(message)
      request.context('a')
    }
  },
  'a token of quotes': (length) => token(`${'1'.repeat(16)}"${fill('\\"', length)}`),
  'a token of digits': (length) => token(fill('1', length)),
  'a token of objects': (length) => token(`${fill('{"a":', length)}1234567890123456`),
  'a verified token of claims': (length) => verified(`{${list(length / 8, (i) => `"${10_000 + i}":1`).join()}}`),
  'a verified token of groups': (length) => verified(`{"b":[${fill('"aa",', length)}"a"]}`),
  'a verified token of groups that differ late': (length) => verified(`{"b":[${list(8, (i) => `"${fill('a', length / 8)}${i}"`).join()}]}`),
  'a verified token of lists': (length) => verified(`{"b":${fill('[', length)}${fill(']', length)}}`),
  'a verified token of escapes': (length) => verified(`{"sub":"${fill('\\u0061', length)}"}`),
  'a verified token of dots': (length) => () => parseCompactJws(fill('.', length)),
  'a verified token that is cut off': (length) => verified(fill('{"a":', length)),
  'a key set of names': (length) => () => readKeySet(`{"keys":[],${list(length / 8, (i) => `"${10_000 + i}":1`).join()}}`),
  'a key set of lists': (length) => () => readKeySet(`{"keys":[${fill('[', length)}${fill(']', length)}]}`),
  'a key set of operations': (length) => () => readKeySet(`{"keys":[{"kty":"RSA","key_ops":[${fill('"verify",', length)}1]}]}`),
  'words behind Bearer': (length) => () => bearerToken(fill('Bearer ', length)),
  'blanks around Bearer': (length) => () => bearerToken(`Bearer${fill(' ', length)}a`),
  'a path of dots': (length) => () => normalizePath(fill('/a/../.', length)),
  'a path of escapes': (length) => () => normalizePath(`/${fill('%41%2f%', length)}`),
  'a path that may be excepted': (length) => () => isPlainPath(`${fill('/a.b', length)}%`),
  'a path of slashes': (length) => () => normalizePath(fill('/', length)),
  'a path below an excepted one': (length) => {
    const prefixes = new PathPrefixes([`${fill('/a', length)}/b`])
    return () => prefixes.cover(fill('/a', length))
  },
  'a host of labels': (length) => () => normalizeHost(fill('A.', length)),
  'a host of colons': (length) => () => normalizeHost(fill('1:', length)),
  'a host of digits': (length) => () => normalizeHost(`A:${fill('1', length)}x`),
  'proxies in X-Forwarded-For': (length) => () => clientAddress(fill('127.0.0.1,', length), trusted),
  'commas in X-Forwarded-For': (length) => () => clientAddress(fill(',', length), trusted),
  'blanks in X-Forwarded-For': (length) => () => clientAddress(fill(' ', length), trusted),
  'groups of an address': (length) => () => clientAddress(fill('1:', length), trusted),
  'a network of dots': (length) => () => new CidrMap().add(fill('.:', length), true),
  'a network of slashes': (length) => () => new CidrMap().add(fill('/', length), true),
  cookies: (length) => () => sessions.isActive(fill('edge_dbg=x; ', length)),
  'cookies that are left out': (length) => () => withoutSessionCookies(fill('edge_dbg=x; a=b;', length)),
  'a cookie behind others': (length) => () => cookieValue(fill('a=b; ', length), 'a'),
  'a cookie behind separators': (length) => () => cookieValue(fill(';', length), 'a'),
  'a cookie of escapes': (length) => () => cookieValue(`a=${fill('%61%', length)}`, 'a'),
  'a cookie of blanks': (length) => () => cookieValue(`${fill(' ', length)}a${fill(' ', length)}=b`, 'a'),
  'cookies whose names are escaped': (length) => () => cookieValue(fill('%62=1;', length), 'a'),
  'a parameter behind others': (length) => () => queryValue(`/?${fill('b=c&', length)}a=1`, 'a'),
  'a parameter behind separators': (length) => () => queryValue(`/?${fill('&', length)}a=1`, 'a'),
  'a parameter behind names without a value': (length) => () => queryValue(`/?${fill('b&', length)}a=1`, 'a'),
  'a parameter of escapes': (length) => () => queryValue(`/?a=${fill('%61%+', length)}`, 'a'),
  'parameters whose names are escaped': (length) => () => queryValue(`/?${fill('%62=1&', length)}`, 'a'),
  'a parameter before a fragment': (length) => () => queryValue(`/?${fill('b=c&', length)}#${fill('b=c&', length)}`, 'a'),
  'a segment of many': (length) => () => pathSegment(fill('/a', length), 32),
  'fields of one name': (length) => () =>
    fieldValue(
      list(length, (i) => (i % 2 ? 'v' : 'X-A')),
      'x-a',
    ),
  'spellings of one name': (length) => () => {
    const fields = ['Host', 'a', ...list(length, (i) => (i % 2 ? 'v' : 'X.A_B'))]
    const request = ProxiedRequest.read({ method: 'GET', target: '/', version: '1.1', fields }, false)
    new ProxiedRequestView(request, { isTrusted: false }).header('x-a-b')
  },
  'fields about the connection': (length) => () =>
    ProxiedRequest.read(
      { method: 'GET', target: '/', version: '1.1', fields: ['Host', 'a', ...list(length, (i) => (i % 2 ? 'v' : 'Connection'))] },
      false,
    ),
  'a request head of one target': requestHead('GET /', 'a'),
  'a request head of one name': requestHead('GET / HTTP/1.1\r\n', 'a'),
  'a request head of one value': requestHead('GET / HTTP/1.1\r\nA: ', 'a b'),
  'a request head of many fields': requestHead('GET / HTTP/1.1\r\n', 'A: b\r\n', '\r\n'),
  'request chunks of a byte': requestChunks('', '1\r\nx\r\n'),
  'extensions of a request chunk': requestChunks('1', ';a="\\b"'),
  'zeros of a request chunk': requestChunks('', '0'),
  'request trailers': requestChunks('0\r\n', 'Connection: a,b\r\n'),
  'a request trailer of one name': requestChunks('0\r\n', 'a'),
  'a request trailer of one value': requestChunks('0\r\nConnection: ', 'a,'),
  'bytes that wait': unread(1, 0),
  'bytes that wait and are read in part': unread(2, 1),
  'a response head of one line': response('HTTP/1.1 200 ', 'a'),
  'a response head of many lines': response('HTTP/1.1 200 OK\r\n', 'A: b\r\n'),
  trailers: response(`${CHUNKED}0\r\n`, 'A: b\r\n'),
  chunks: response(CHUNKED, '1\r\nx\r\n'),
  'chunks that are relayed': response(CHUNKED, '1\r\nx\r\n', true),
  'chunks with extensions that are relayed': response(CHUNKED, '1;ab\r\nx\r\n', true),
  'a size of zeros': response(CHUNKED, '0', true),
  'an event of one line': framed('data: a'),
  'an event of many lines': framed('data: a\r\n'),
  'many events': framed('data: a\n\n'),
  'events of Gemini': streamed('data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"index":1}]}\n\n'),
  'events that are read': streamed('data: {"choices":[{"delta":{"content":"a"}}]}\n\n'),
  'a text in an event': halved('ab'),
  'escapes in an event': halved('\\n\\u00e9'),
  'an event of many lines that is read': streamed('data: [1,\ndata: '),
  'a prompt of one text': llmRequest('{"prompt":"', 'a'),
  'a prompt of escapes': llmRequest('{"prompt":"', '\\ud83d\\ude00\\n'),
  'a prompt of tokens': llmRequest('{"prompt":[', '1,'),
  'messages that are empty': llmRequest('{"messages":[', '{},'),
  'messages inside messages': llmRequest('{"messages":', '[{"content":'),
  'names of a request': llmRequest('{', '"model":1,'),
  'a name of a request': llmRequest('{"', 'model'),
  'a number of a request': llmRequest('{"max_tokens":', '1'),
  'a file that nearly ends': upload(`${'-a'.repeat(30)}b`, 'x', '-a'),
  'fields of parts': upload('B', '', '--B\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'),
  'a part of empty lines': upload('B', '--B', '\n\n\r\r'),
  'contents of Gemini': geminiRequest('{"contents":[', '{"parts":[{"text":"a"}]},'),
  'parts of Gemini inside parts': geminiRequest('{"contents":', '[{"parts":'),
  'names of a Gemini configuration': geminiRequest('{"generationConfig":{', '"maxOutputTokens":"1",'),
  'a number of Gemini as a text': geminiRequest('{"generationConfig":{"maxOutputTokens":"', '1'),
  'a path of colons': (length) => () => endpointOf(`/models/${fill(':%3A', length)}`),
  'a path of deployments': (length) => () => endpointOf(fill('/openai/deployments/', length)),
  'a model in a path': (length) => () => endpointOf(`/models/${fill('%41%', length)}:generateContent`),
  'a name of a model': (length) => () => plainModel(fill('models/', length)),
  'a request that is no JSON': llmRequest('', 'a"'),
  'a whole answer of Gemini': scanned(LlmResponseReader, '[', '{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},'),
  'an event that passes': passing('data: {"choices":[', '{"delta":{"content":"a"}},'),
  'an event of many lines that passes': passing('data: [', '1,\rdata: \r: \r'),
  'events of no known API': streamed('data: {"a":"b"}\n\nodd\n\n'),
  'a stream with another label': scanned(LlmResponseReader, '', 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'),
  'numbers that JSON does not have': scanned(LlmResponseReader, '[', '-Infinity,NaN,'),
  'a number without end': scanned(LlmResponseReader, '[', '9'),
  'a whole answer': scanned(LlmResponseReader, '{"choices":[', '{"message":{"content":"a"}},'),
  'the input of a tool': scanned(LlmResponseReader, '{"content":[{"input":', '{"a":[1,{}],"b":'),
  'empty frames': http2Frames('\0\0\0\x04\0\0\0\0\0'),
  'frames of 16 KiB': http2Frames(`\0\x40\0\0\0\0\0\0\x01${'x'.repeat(16_384)}`),
  'a block of numbers': headerBlock('', '\x82'),
  'a block of fields that are added': headerBlock('', '\x40\x01a\x01b'),
  'a block of fields that fill the table': headerBlock('', `\x40\x01a\x7f\x49${'b'.repeat(200)}`),
  'a block of changes of the table': headerBlock('', '\x20\x3f\xe1\x1f'),
  'a block of Huffman code': headerBlock('', '\x00\x01a\x83\xff\xff\x3f'),
  'a block of one text': (length) => headerBlock(`\x00\x01a\x7f${textLength(length - 127)}`, 'a')(length),
  'a status message of escapes': (length) => () => encodedStatusMessage(fill('%ä', length)),
  'an explained target': explained((length) => ({ uri: fill('/é', length) })),
  'an explained value of spaces': explained((length) => ({ headers: { x: fill(' ', length) } })),
  'an explained value between spaces': explained((length) => ({ headers: { x: `${fill(' ', length / 2)}a${fill(' ', length / 2)}` } })),
  'explained fields': explained((length) => ({ headers: Object.fromEntries(list(length / 10, (i) => [`x-${i}`, 'a'])) })),
  'explained hosts': explained((length) => ({ headers: { host: list(length / 4, () => 'a') } })),
  'counters of other keys': counted((length) => list(length / 10, (i) => `header:y-${i}=a`).join('&')),
  'counters of one key': counted((length) => fill('header:x=a&', length)),
  'events that there are': asked((length) => readNames(list(length / 14, () => 'reject,bundle').join())),
  'events that there are not': asked((length) => readNames(list(length / 10, (i) => `event_${i}`).join(','))),
  'a number of days': asked((length) => readSince(`${fill('9', length)}d`, 0)),
  'a time of digits': asked((length) => readSince(`${fill('2026-01-01T', length)}Z`, 0)),
  'a settlement of names': (length) => () => readSettlement(`{${list(length / 10, (i) => `"a${i}":1`).join()}}`),
  'a settlement of lists': (length) => () => readSettlement(`${fill('[', length)}${fill(']', length)}`),
  'a settlement of one text': (length) => () => readSettlement(`{"reservation":"${fill('\\u0061', length)}"}`),
  'a settlement with a long unknown name': (length) => () => readSettlement(`{"${fill('a', length)}":1}`),
  'a long token': (length) => () => openToken(new Uint8Array(32), fill('AQ', length)),
  policies: (length) =>
    jsonBundle({ bundle_version: 1, policies: list(length / 20, (i) => ({ id: `p${i}`, spec: { rules: [rule(i)] } })) }),
  rules: (length) => jsonBundle({ bundle_version: 1, policies: [{ id: 'p', spec: { rules: list(length / 20, rule) } }] }),
  hosts: (length) =>
    jsonBundle({ bundle_version: 1, policies: [{ id: 'p', spec: { selector: { hosts: list(length, (i) => `h${i}.a`) }, rules: [] } }] }),
  patterns: (length) =>
    jsonBundle({
      bundle_version: 1,
      policies: [{ id: 'p', spec: { rules: [{ ...rule(0), match: { bearer: list(length, (i) => `t${i}`) } }] } }],
    }),
  'wrong patterns': (length) =>
    jsonBundle({
      bundle_version: 1,
      policies: [{ id: 'p', spec: { rules: [{ ...rule(0), match: { bearer: list(length / 20, () => 1) } }] } }],
    }),
  'unknown fields': (length) =>
    jsonBundle({ bundle_version: 1, policies: [Object.fromEntries(list(length / 20, (i) => [`field${i}`, 1]))] }),
  'a long unknown field': (length) => jsonBundle({ bundle_version: 1, policies: [{ [fill('selector', length)]: 1 }] }),
  'wrong rules': (length) =>
    jsonBundle({ bundle_version: 1, policies: [{ id: 'p', spec: { rules: list(length / 20, () => ({ algorithm: 'x' })) } }] }),
  'wrong time zones': (length) =>
    jsonBundle({ bundle_version: 1, policies: [{ id: 'p', spec: { rules: list(length / 20, inWrongZone) } }] }),
  'tables of prices': (length) =>
    jsonBundle({ bundle_version: 1, prices: tables(length), policies: [{ id: 'p', spec: { rules: list(length / 10, priced) } }] }),
  'wrong names of tables': (length) =>
    jsonBundle({ bundle_version: 1, prices: tables(length), policies: [{ id: 'q', spec: { rules: list(length / 10, mispriced) } }] }),
  'rules of one name': (length) =>
    jsonBundle({ bundle_version: 1, policies: [{ id: 'p', spec: { rules: list(length / 20, () => rule(0)) } }] }),
  'YAML policies': (length) => yamlBundle(`bundle_version: 1\npolicies:\n${'- {id: a, spec: {rules: []}}\n'.repeat(length / 30)}`),
  'YAML of one text': (length) => yamlBundle(`a: "${fill('a ', length)}`),
  'YAML of lines': (length) => yamlBundle(`a: ${fill('a\n  ', length)}`),
  'YAML of blank lines': (length) => yamlBundle(`a: |\n${fill('\n', length)}`),
  'YAML of comments': (length) => yamlBundle(fill('# a\n', length)),
  'YAML of keys': (length) => yamlBundle(list(length / 4, (i) => `a${i}: 1\n`).join('')),
  'YAML of anchors': (length) => yamlBundle(list(length / 20, (i) => `a${i}: &b${i} 1\nc${i}: *b${i}\n`).join('')),
  'YAML of merges': (length) => yamlBundle(`a: &a {b: 1}\n${list(length / 20, (i) => `c${i}: {<<: *a}\n`).join('')}`),
  'YAML of brackets': (length) => yamlBundle(fill('[', Math.min(length, 90))),
  cases: (length) =>
    cases(list(length / 80, (i) => `- name: c${i}\n  steps: [{ request: { uri: / }, expect: { status: 200 } }]\n`).join('')),
  'cases of one name': (length) => cases('- name: a\n  steps: [{ request: { uri: / }, expect: { status: 200 } }]\n'.repeat(length / 60)),
  'a case of unknown fields': (length) => cases(`- name: a\n${list(length / 10, (i) => `  a${i}: 1\n`).join('')}`),
  'a case with a long name of a field': (length) => cases(`- name: a\n  "${fill('[\\".', length)}": 1\n`),
  'a case of many statuses': (length) =>
    cases(`- name: a\n  steps: [{ request: { uri: / }, expect: { status: [${fill('200,', length)}] } }]\n`),
  'a JSON bundle of mistakes': (length) =>
    jsonBundle({ bundle_version: 1, policies: list(length / 20, (i) => ({ id: i, spec: { rules: [{ name: i }] } })) }),
  'a YAML bundle of mistakes': (length) =>
    yamlBundle(`bundle_version: 1\npolicies:\n${'- {id: 1, spec: {rules: {}}}\n'.repeat(length / 30)}`),
  'a YAML bundle of mistakes in an alias': (length) =>
    yamlBundle(
      `bundle_version: 1\nmetadata: &m [${fill('1,', length / 8)}1]\npolicies:\n${'- {id: *m}\n'.repeat(Math.min(length / 11, 900))}`,
    ),
  'YAML of commas': (length) => yamlBundle(`a: [${fill('1,', length)}]`),
}
